// Prefetcher: a thread that gathers the next batches while the current one
// computes. Blocks are served in the order they were added.
//
//   Prefetcher prefetcher(&source, options);
//   prefetcher.AddBlock({epoch, block});
//   while (true) {
//     auto batch = prefetcher.Next(absl::Seconds(5));   // kOutOfRange: the end
//     ... compute ...
//     prefetcher.Recycle(*std::move(batch));
//   }
//
// Thread safety: all calls may come from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "worker/data/data_source.h"
#include "worker/data/permutation.h"
#include "worker/nn/batch.h"

namespace monsoon {

struct BlockKey {
  uint32_t epoch = 0;
  uint64_t block = 0;
  uint64_t granted = 0;  // of its samples, from its beginning; 0: all
  bool operator==(const BlockKey&) const = default;
};

struct PrefetchedBatch {
  Batch batch;
  BlockKey block;
  bool last_of_block = false;
};

class Prefetcher {
 public:
  struct Options {
    uint64_t seed = 0;  // of the data order: the job's
    uint32_t batch_size = 1;
    uint32_t block_examples = 1;
    size_t depth = 2;  // batches gathered ahead, at least 1
  };

  // `source` must outlive this. Starts the thread.
  Prefetcher(const DataSource* source, const Options& options);
  // Stops and joins; waits for the batch that is being gathered at most.
  ~Prefetcher();

  // The block number must be below layout().blocks(). Ignored after Stop.
  void AddBlock(const BlockKey& block);
  // No block will be added: after the last one Next answers kOutOfRange.
  void Finish();

  // The next batch, waiting at most `timeout`. kDeadlineExceeded: nothing
  // came, try again or add blocks; kOutOfRange: finished; kCancelled: stopped; the
  // source's error, once the batches before it were given: nothing comes after it.
  absl::StatusOr<std::unique_ptr<PrefetchedBatch>> Next(absl::Duration timeout);
  // Gives a batch back, so that its memory is used again.
  void Recycle(std::unique_ptr<PrefetchedBatch> batch);

  // Blocks added of which no batch was gathered yet: time to lease more.
  size_t waiting_blocks() const;

  // Ends all waits with kCancelled. Does not join.
  void Stop();

  const BlockLayout& layout() const { return layout_; }

 private:
  // Data sets hold two epochs' orders at most: blocks of two epochs may mix at
  // the border.
  static constexpr size_t kMaxPermutations = 2;

  void Run();
  absl::Status GatherBlock(const BlockKey& block);
  const std::vector<uint32_t>& Permutation(uint32_t epoch);
  // Waits for room, null when stopped.
  std::unique_ptr<PrefetchedBatch> WaitForRoom();

  const DataSource* const source_;
  const Options options_;
  const BlockLayout layout_;
  std::map<uint32_t, std::vector<uint32_t>> permutations_;  // the thread's own

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<BlockKey> blocks_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<PrefetchedBatch>> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<PrefetchedBatch>> free_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool gathering_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;  // last: starts when all else is there
};

}  // namespace monsoon
