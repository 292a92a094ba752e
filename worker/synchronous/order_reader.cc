#include "worker/synchronous/order_reader.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "common/base/status.h"
#include "worker/data/permutation.h"

namespace monsoon {
namespace {

constexpr absl::Duration kWaitSlice = absl::Seconds(1);

}  // namespace

OrderReader::OrderReader(const DataSource* source, uint64_t seed, uint32_t batch_size)
    : source_(source),
      seed_(seed),
      batch_size_(batch_size),
      per_epoch_((source->examples() + batch_size - 1) / batch_size) {}

void OrderReader::Seek(uint64_t first, uint32_t count, uint64_t stride) {
  while (gatherer_.busy()) {
    gatherer_.WaitTake(kWaitSlice);  // what it has is not wanted any more
  }
  next_first_ = first;
  stride_ = stride;
  while (current_.size() < count) {
    current_.emplace_back(batch_size_, source_->format());
    next_.emplace_back(batch_size_, source_->format());
  }
  current_.resize(count);
  next_.resize(count);
  GatherAhead();
}

void OrderReader::GatherAhead() {
  gatherer_.Start([this] {
    for (size_t i = 0; i < next_.size(); ++i) {
      RETURN_IF_ERROR(Gather(next_first_ + i, &next_[i]));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Batch*>> OrderReader::Next() {
  std::optional<absl::Status> gathered;
  while (!gathered) {
    gathered = gatherer_.WaitTake(kWaitSlice);
  }
  RETURN_IF_ERROR(*gathered);
  std::swap(current_, next_);
  next_first_ += stride_;
  GatherAhead();
  std::vector<Batch*> batches;
  for (Batch& batch : current_) {
    batches.push_back(&batch);
  }
  return batches;
}

absl::Status OrderReader::Gather(uint64_t batch, Batch* to) {
  const std::vector<uint32_t>& order = Permutation(static_cast<uint32_t>(batch / per_epoch_));
  const uint64_t begin = batch % per_epoch_ * batch_size_;
  const uint64_t size = std::min<uint64_t>(batch_size_, order.size() - begin);
  return source_->Gather(std::span(order).subspan(begin, size), to);
}

const std::vector<uint32_t>& OrderReader::Permutation(uint32_t epoch) {
  const auto found = permutations_.find(epoch);
  if (found != permutations_.end()) {
    return found->second;
  }
  if (permutations_.size() >= kMostPermutations) {
    permutations_.erase(permutations_.begin());
  }
  return permutations_
      .emplace(epoch, EpochPermutation(seed_, epoch, static_cast<uint32_t>(source_->examples())))
      .first->second;
}

}  // namespace monsoon
