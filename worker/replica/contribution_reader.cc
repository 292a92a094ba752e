#include "worker/replica/contribution_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/data/permutation.h"

namespace monsoon {
namespace {

constexpr absl::Duration kWaitSlice = absl::Seconds(1);

uint32_t ChunkExamples(const Job& job) {
  const uint32_t chunk = job.sandblaster().chunk_examples();
  return chunk == 0 ? job.batch_size() : chunk;
}

}  // namespace

ContributionReader::ContributionReader(const DataSource* source, const Job& job)
    : source_(source),
      batch_size_(std::min(job.batch_size(), ChunkExamples(job))),
      chunk_examples_(ChunkExamples(job)),
      order_(BatchSample(job.seed(), job.sandblaster().sample_examples(),
                         static_cast<uint32_t>(source->examples()))),
      current_(batch_size_, source->values_per_example()),
      next_(batch_size_, source->values_per_example()) {
  CHECK_GT(batch_size_, 0u);
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
  if (ahead_ || cuts_.empty()) {
    return;
  }
  ahead_ = true;
  gatherer_.Start([this, samples = cuts_.front().samples] {
    source_->Gather(samples, &next_);
    next_.examples = samples.size();
    return true;
  });
}

void ContributionReader::AwaitGathered() {
  while (ahead_ && !gatherer_.WaitTake(kWaitSlice).has_value()) {
  }
  ahead_ = false;
}

ContributionReader::Piece ContributionReader::Next() {
  CHECK(!cuts_.empty());
  AwaitGathered();
  std::swap(current_, next_);
  const Cut cut = cuts_.front();
  cuts_.pop_front();
  GatherAhead();
  return {&current_, cut.samples, cut.ends_chunk, cut.ends_contribution};
}

void ContributionReader::Clear() {
  AwaitGathered();
  cuts_.clear();
}

}  // namespace monsoon
