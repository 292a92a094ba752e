// PushBound: keeps a replica from getting too far ahead of the others (stale synchronous parallel,
// Ho et al. 2013; Downpour.staleness_bound): before it computes a push, whoever has made more than
// `bound` pushes more than the slowest that trains, waits. The coordinator says who that is
// (PushClocks); no shard holds anything back.
//
// A thread of its own tells the coordinator how far the replica is, after each push or, with a
// large bound, after some, and at once where the replica has to wait. While the coordinator cannot
// be reached, what it said last stands: the replica goes on that far and waits.
//
// Thread safety: Await and Rest belong to the compute thread; Acknowledged may be called by any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "proto/tensor.pb.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

class PushBound {
 public:
  // Null in a job in which no replica waits for another. All pointed to must outlive it.
  static std::unique_ptr<PushBound> Of(const Job& job, const SessionKey& session,
                                       ReplicaClient* coordinator, StatsCollector* stats,
                                       SessionControl* control, const Clock* clock);

  // As of Of.
  PushBound(uint32_t bound, const SessionKey& session, ReplicaClient* coordinator,
            StatsCollector* stats, SessionControl* control, const Clock* clock);
  // Waits for the call in flight, which has the client's deadline.
  ~PushBound();
  PushBound(const PushBound&) = delete;
  PushBound& operator=(const PushBound&) = delete;

  // Before the push after `pushes` is computed: waits until it may be. True: it has waited.
  // `meanwhile` is called again and again; its error ends the wait. CANCELLED when the session
  // drains or ends.
  absl::StatusOr<bool> Await(uint64_t pushes, absl::FunctionRef<absl::Status()> meanwhile);

  // All shards have so many pushes of the session.
  void Acknowledged(uint64_t pushes);

  // Another bound from now on, for whoever waits, too.
  void SetBound(uint32_t bound);

  // There is nothing to compute for now, and nobody waits for this replica: what the others have
  // come to by then is asked anew.
  void Rest();

 private:
  void Run();
  // The coordinator has answered a call that told `clock`, after so many rests.
  void Take(uint64_t clock, uint64_t rests, const ClockReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayCompute(uint64_t pushes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pushes that the coordinator does not know of.
  uint64_t Untold() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string WaitsFor(uint64_t pushes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionKey session_;
  ReplicaClient* const coordinator_;
  StatsCollector* const stats_;
  SessionControl* const control_;
  const Clock* const clock_;

  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t bound_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool asks_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;       // calls that are over
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;  // pushes
  uint64_t raised_ ABSL_GUARDED_BY(mutex_) = 0;        // the clock is so far above these, or below
  uint64_t told_ ABSL_GUARDED_BY(mutex_) = 0;          // the clock that the coordinator knows
  uint64_t rests_ ABSL_GUARDED_BY(mutex_) = 0;
  // Nothing: it has to begin.
  std::optional<uint64_t> least_ ABSL_GUARDED_BY(mutex_);
  uint32_t slowest_ ABSL_GUARDED_BY(mutex_) = 0;
  Thread teller_;  // last: it uses the ones above
};

}  // namespace monsoon
