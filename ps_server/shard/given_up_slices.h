// GivenUpSlices: who waits here knows when nobody holds a slice any more that the shard
// has given up, so that its memory is free for the next one.
//
// Thread safe. Its lock is the last that is taken.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {

class GivenUpSlices {
 public:
  // Whose end this will see. It must not outlive this.
  std::shared_ptr<ShardJob> Watch(std::unique_ptr<ShardJob> slice);
  // One that is watched is given up.
  void Add(const std::shared_ptr<ShardJob>& slice);

  // Whether somebody holds a slice of the job that was given up.
  bool AnyOf(const std::string& job, uint64_t job_term) const;
  // Waits until nobody does; false: `patience` is over.
  bool AwaitNoneOf(const std::string& job, uint64_t job_term, absl::Duration patience) const;

 private:
  using JobKey = std::pair<std::string, uint64_t>;
  struct Deleter {
    GivenUpSlices* slices = nullptr;
    uint64_t number = 0;
    void operator()(const ShardJob* slice) const;
  };

  bool Has(const JobKey& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  mutable CondVar destroyed_;
  uint64_t watched_ ABSL_GUARDED_BY(mutex_) = 0;  // so far: numbers never come again
  std::map<uint64_t, JobKey> slices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
