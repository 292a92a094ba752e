#include "worker/sandblaster/contribution_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "proto/job.pb.h"
#include "worker/data/permutation.h"

namespace monsoon {
namespace {

constexpr absl::Duration kWaitSlice = absl::Seconds(1);

uint32_t ChunkExamples(const Job& job) {
  const uint32_t chunk = job.sandblaster().chunk_examples();
  return chunk == 0 ? job.batch_size() : chunk;
}

}  // namespace

ContributionReader::ContributionReader(const DataSource* source, const Job& job, uint32_t ahead)
    : source_(source),
      batch_size_(std::min(job.batch_size(), ChunkExamples(job))),
      chunk_examples_(ChunkExamples(job)),
      order_(BatchSample(job.seed(), job.sandblaster().sample_examples(),
                         static_cast<uint32_t>(source->examples()))) {
  CHECK_GT(batch_size_, 0u);
  CHECK_GT(ahead, 0u);
  for (uint32_t i = 0; i < ahead; ++i) {
    current_.emplace_back(batch_size_, source->format());
    next_.emplace_back(batch_size_, source->format());
  }
}

absl::Status ContributionReader::Append(const NextWorkReply::Contribution& contribution) {
  const uint64_t first = contribution.first();
  if (contribution.examples() == 0 || first >= order_.size() ||
      contribution.examples() > order_.size() - first) {
    return absl::InvalidArgumentError(
        absl::StrCat("contribution ", contribution.contribution(), " is ", contribution.examples(),
                     " samples from position ", first, ", but the batch has ", order_.size()));
  }
  const std::span<const uint32_t> all = std::span(order_).subspan(first, contribution.examples());
  for (size_t chunk = 0; chunk < all.size(); chunk += chunk_examples_) {
    const size_t chunk_end = std::min<size_t>(chunk + chunk_examples_, all.size());
    for (size_t begin = chunk; begin < chunk_end; begin += batch_size_) {
      const size_t end = std::min<size_t>(begin + batch_size_, chunk_end);
      cuts_.push_back({all.subspan(begin, end - begin), end == chunk_end, end == all.size()});
    }
  }
  GatherAhead();
  return absl::OkStatus();
}

void ContributionReader::GatherAhead() {
  if (ahead_ > 0 || cuts_.size() <= ready_) {
    return;
  }
  ahead_ = std::min(next_.size(), cuts_.size() - ready_);
  std::vector<std::span<const uint32_t>> samples;
  for (size_t i = 0; i < ahead_; ++i) {
    samples.push_back(cuts_[ready_ + i].samples);
  }
  gatherer_.Start([this, samples = std::move(samples)] {
    for (size_t i = 0; i < samples.size(); ++i) {
      RETURN_IF_ERROR(source_->Gather(samples[i], &next_[i]));
      next_[i].examples = samples[i].size();
    }
    return absl::OkStatus();
  });
}

absl::Status ContributionReader::AwaitGathered() {
  while (gatherer_.busy()) {
    if (std::optional<absl::Status> gathered = gatherer_.WaitTake(kWaitSlice)) {
      return *std::move(gathered);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ContributionReader::Piece> ContributionReader::Next() {
  CHECK(!cuts_.empty());
  if (ready_ == 0) {
    RETURN_IF_ERROR(AwaitGathered());
    std::swap(current_, next_);
    given_ = 0;
    ready_ = std::exchange(ahead_, 0);
  }
  Batch* const batch = &current_[given_++];
  --ready_;
  const Cut cut = cuts_.front();
  cuts_.pop_front();
  GatherAhead();
  return Piece{batch, cut.samples, cut.ends_chunk, cut.ends_contribution};
}

void ContributionReader::Clear() {
  // What could not be read is not wanted any more.
  AwaitGathered().IgnoreError();
  ahead_ = 0;
  ready_ = 0;
  cuts_.clear();
}

}  // namespace monsoon
