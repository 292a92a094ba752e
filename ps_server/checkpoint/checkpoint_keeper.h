// CheckpointKeeper: writes the generations that the coordinator orders, one after the
// other in a thread of its own, and knows what is on the disk. The job trains on. Makes
// the slices again that an earlier life of the shard had, from what is there.
//
// Thread safe. Nothing here waits for the disk but Restore, Delete and Flush.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/storage/storage.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/kept_parts.h"
#include "ps_server/checkpoint/marks_folder.h"
#include "ps_server/checkpoint/restore_part.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {

struct CheckpointKeeperOptions {
  std::string state_dir;
  uint32_t task = 0;
  // Of jobs that are neither in memory nor known to the coordinator so many are kept on
  // the disk, the newest.
  size_t keep_ended_jobs = 20;
  // Whether this life may still put files in place (StateFolder::CheckOwner).
  std::function<absl::Status()> check_owner;
  // Called when the first part of this life is on the disk; again with the next one if it
  // fails. Null: nobody asks.
  std::function<absl::Status()> note_written;
  // What the shard's jobs keep there goes with them; null: nothing. Outlives the keeper.
  MarksFolder* marks = nullptr;
};

class CheckpointKeeper {
 public:
  // `storage` outlives this.
  CheckpointKeeper(CheckpointKeeperOptions options, Storage* storage);
  // What is being written is given up.
  ~CheckpointKeeper();

  // `order` is of `job`. OK for a generation that is on the disk, is being written or
  // waits for that; one that failed is tried again. FailedPrecondition for one that is
  // older than what was ordered last, Unavailable for a slice that was given up.
  absl::Status Order(std::shared_ptr<ShardJob> job, const CheckpointRequest& order);
  // Makes the job on `shard` from its newest good part, or from the one that the request
  // names, and takes over all that is on the disk of it. A job that is there is answered
  // as it was restored; but one of an earlier attempt is given up first: what is written
  // of it ends at its next stripe, and its memory is free before the new slice is made.
  // As Shard::GiveUpEarlier, Shard::RestoreJob and RestoreNewestPart. Unavailable while
  // it is being deleted, DeadlineExceeded or Unavailable where the slice could not be
  // given up yet: to be asked again. After an error the shard does not have the slice of
  // an earlier attempt any more, unless that is Aborted or AlreadyExists.
  absl::StatusOr<RestoreShardJobReply> Restore(Shard* shard, const RestoreShardJobRequest& request);
  // Fills in what the shard itself does not know.
  void FillStatus(ShardStatusReply* reply) const;
  // The job is deleted: its parts go, also those of earlier lives. Waits for the one that is being
  // written, which is given up at its next stripe. An error: some could not be removed.
  absl::Status Delete(const std::string& job, uint64_t job_term);
  // Writes a generation of each job that has one and has applied more since; called
  // when pushes are refused. Of a batch job that has begun only what was ordered: between
  // two iterations there is nothing that it could go on from. Waits at most `grace`. The
  // jobs for which it failed are named in the error.
  absl::Status Flush(absl::Duration grace);
  // Waits until nothing is being written or waits for that; false: `timeout` is over.
  bool AwaitIdle(absl::Duration timeout);

 private:
  using JobKey = std::pair<std::string, uint64_t>;
  struct Job {
    std::shared_ptr<ShardJob> slice;
    KeptParts parts;
    CheckpointRequest order;  // the newest; generation 0: none
    bool waits = false;       // it is in due_
    std::string error;
    bool deleted = false;
    RestoreShardJobReply restored;  // what it was answered; without the epoch
  };

  // Forgets a slice that was given up, once nothing of it is being written.
  absl::Status LetGo(const JobKey& key);
  // Takes over what `part` has found; Unavailable while the job is being deleted.
  absl::Status Adopt(const JobKey& key, std::shared_ptr<ShardJob> slice, RestoredPart part);
  absl::Status CheckNotKnown(const JobKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WaitForIdle(absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Job* Find(const JobKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(const JobKey& key, Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  // Writes what `key` has ordered; takes and gives up the lock.
  void Write(const JobKey& key);
  // Before the next part of `key` is known on the disk.
  absl::Status SetPassedOverAside(const JobKey& key);
  // Tells that this life has written a part, once.
  void NoteWritten();
  // Removes what the newer part at `key` has made needless.
  void RemoveGarbage(const JobKey& key, std::vector<PartFiles> garbage);
  // Removes parts of jobs that are neither in memory nor `known` to the coordinator.
  void Prune(const KnownJobs& known);

  const CheckpointKeeperOptions options_;
  Storage* const storage_;

  mutable Mutex mutex_;
  CondVar changed_;  // work, the end of some, or the end
  std::map<JobKey, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::deque<JobKey> due_ ABSL_GUARDED_BY(mutex_);
  JobKey writing_ ABSL_GUARDED_BY(mutex_);  // "": nothing
  bool noted_written_ = false;              // of thread_ alone
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace monsoon
