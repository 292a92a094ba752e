// SharedFiles: the descriptors by which readers map slices. A slice of a job that has ended stays
// while the job is listed, and nobody trains on it any more: its descriptor is closed, so that
// jobs that are kept do not use them up. Who reads such a slice asks the shard for frames, as from
// another host; so does a session that is opened again after so long.
//
// Thread safe.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "common/base/mutex.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {

class SharedFiles {
 public:
  // So many slices without an open session keep theirs, the newest.
  static constexpr size_t kIdle = 16;

  // A slice was made; descriptors of older ones are closed.
  void Add(const std::shared_ptr<ShardJob>& made);

 private:
  Mutex mutex_;
  std::deque<std::weak_ptr<ShardJob>> jobs_ ABSL_GUARDED_BY(mutex_);  // the newest first
};

}  // namespace monsoon
