#include "worker/data/prefetcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/process/background_thread.h"

namespace monsoon {
namespace {

// The thread's own waits end by notification; this bounds what a lost one
// could cost.
constexpr absl::Duration kWakeUp = absl::Seconds(1);

}  // namespace

Prefetcher::Prefetcher(const DataSource* source, const Options& options)
    : source_(source),
      options_(options),
      layout_{source->examples(), options.block_examples, options.batch_size},
      thread_([this] { Run(); }) {
  CHECK_GE(options.depth, 1u);
}

Prefetcher::~Prefetcher() {
  Stop();
  thread_.Join();
}

void Prefetcher::AddBlock(const BlockKey& block) {
  CHECK_LT(block.block, layout_.blocks());
  MutexLock lock(&mutex_);
  blocks_.push_back(block);
  changed_.NotifyAll();
}

void Prefetcher::Finish() {
  MutexLock lock(&mutex_);
  finished_ = true;
  changed_.NotifyAll();
}

void Prefetcher::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

size_t Prefetcher::waiting_blocks() const {
  MutexLock lock(&mutex_);
  return blocks_.size();
}

absl::StatusOr<std::unique_ptr<PrefetchedBatch>> Prefetcher::Next(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  changed_.WaitFor(&mutex_, timeout, [this] {
    mutex_.AssertHeld();
    return stopped_ || !ready_.empty() || !error_.ok() ||
           (finished_ && blocks_.empty() && !gathering_);
  });
  if (stopped_) {
    return absl::CancelledError("the prefetcher was stopped");
  }
  if (!ready_.empty()) {
    std::unique_ptr<PrefetchedBatch> batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.NotifyAll();
    return batch;
  }
  if (!error_.ok()) {
    return error_;
  }
  if (finished_ && blocks_.empty() && !gathering_) {
    return absl::OutOfRangeError("all blocks were served");
  }
  return absl::DeadlineExceededError(
      absl::StrCat("no batch within ", absl::FormatDuration(timeout), ": ",
                   blocks_.empty() && !gathering_ ? "no block was added"
                                                  : "the next block is still being gathered"));
}

void Prefetcher::Recycle(std::unique_ptr<PrefetchedBatch> batch) {
  MutexLock lock(&mutex_);
  free_.push_back(std::move(batch));
}

void Prefetcher::Run() {
  DoNotPreempt();
  while (true) {
    BlockKey block;
    {
      MutexLock lock(&mutex_);
      gathering_ = false;
      changed_.NotifyAll();
      const bool ready = changed_.WaitFor(&mutex_, kWakeUp, [this] {
        mutex_.AssertHeld();
        return stopped_ || !blocks_.empty();
      });
      if (stopped_) {
        return;
      }
      if (!ready) {
        continue;
      }
      block = blocks_.front();
      blocks_.pop_front();
      gathering_ = true;
    }
    const absl::Status gathered = GatherBlock(block);
    if (!gathered.ok()) {
      MutexLock lock(&mutex_);
      error_ = gathered;
      changed_.NotifyAll();
      return;
    }
  }
}

absl::Status Prefetcher::GatherBlock(const BlockKey& block) {
  const std::vector<uint32_t>& permutation = Permutation(block.epoch);
  const uint64_t batches = layout_.batches(block.block, block.granted);
  for (uint64_t i = 0; i < batches; ++i) {
    std::unique_ptr<PrefetchedBatch> batch = WaitForRoom();
    if (batch == nullptr) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(
        source_->Gather(layout_.Batch(permutation, block.block, i, block.granted), &batch->batch));
    batch->block = block;
    batch->last_of_block = i + 1 == batches;
    MutexLock lock(&mutex_);
    ready_.push_back(std::move(batch));
    changed_.NotifyAll();
  }
  return absl::OkStatus();
}

std::unique_ptr<PrefetchedBatch> Prefetcher::WaitForRoom() {
  MutexLock lock(&mutex_);
  while (!stopped_ && ready_.size() >= options_.depth) {
    changed_.WaitFor(&mutex_, kWakeUp);
  }
  if (stopped_) {
    return nullptr;
  }
  if (!free_.empty()) {
    std::unique_ptr<PrefetchedBatch> batch = std::move(free_.back());
    free_.pop_back();
    return batch;
  }
  auto batch = std::make_unique<PrefetchedBatch>();
  batch->batch = Batch(options_.batch_size, source_->format());
  return batch;
}

const std::vector<uint32_t>& Prefetcher::Permutation(uint32_t epoch) {
  const auto found = permutations_.find(epoch);
  if (found != permutations_.end()) {
    return found->second;
  }
  if (permutations_.size() >= kMaxPermutations) {
    permutations_.erase(permutations_.begin());
  }
  return permutations_
      .emplace(epoch,
               EpochPermutation(options_.seed, epoch, static_cast<uint32_t>(layout_.examples)))
      .first->second;
}

}  // namespace monsoon
