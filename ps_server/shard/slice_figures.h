// SliceFigures: how much one slice has pushed and fetched, for its status and its checkpoints.
//
// Thread safe. What the data plane counts are atomics of their own; the list of readers of shared
// memory has a lock, under which nothing else is taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/transport/frame/read_counts.h"
#include "proto/parameter_server.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/staleness_counts.h"

namespace monsoon {

class SliceFigures {
 public:
  void CountPushedBytes(uint64_t bytes) { bytes_pushed_ += bytes; }
  void CountVerdict(Verdict verdict);
  // Of an applied push; negative: it is not known.
  void CountStaleness(int64_t staleness) { staleness_.Add(staleness); }
  void CountFetched(uint64_t stripes, uint64_t bytes) {
    fetched_stripes_ += stripes;
    bytes_fetched_ += bytes;
  }
  // Counts a client's reads from now on, until nobody else holds `counts`.
  void AddReader(std::shared_ptr<const ReadCounts> counts);

  // Pushes applied to all stripes together: two cuts with the same sum are the same.
  uint64_t applied() const { return applied_.load(); }

  void AddTo(ShardJobStatus* status) const;
  void AddTo(ShardCheckpoint* cut) const;
  // Before anybody else has the job: goes on where the content was.
  void Restore(const ShardCheckpoint& content);

 private:
  // Adds up the counts of readers that are gone.
  void FoldReaders() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(readers_mutex_);

  mutable Mutex readers_mutex_;
  mutable std::vector<std::shared_ptr<const ReadCounts>> readers_ ABSL_GUARDED_BY(readers_mutex_);

  StalenessCounts staleness_;
  std::atomic<uint64_t> applied_{0};
  std::atomic<uint64_t> duplicates_{0};
  std::atomic<uint64_t> refused_{0};
  mutable std::atomic<uint64_t> fetched_stripes_{0};  // but for those of readers_
  mutable std::atomic<uint64_t> bytes_fetched_{0};
  std::atomic<uint64_t> bytes_pushed_{0};
};

}  // namespace monsoon
