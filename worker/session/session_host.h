// SessionHost: keeps a process a member of the cluster and runs the sessions that it is
// given, one after another, in a thread of its own. What a session computes is its
// SessionRunner's affair.
//
// Starts in any order with the other tasks: it keeps asking the coordinator.
//
// Thread safety: all calls may run concurrently.
#pragma once

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "worker/session/cluster_member.h"
#include "worker/session/session_control.h"
#include "worker/session/session_end.h"

namespace monsoon {

class SessionHost {
 public:
  struct Options {
    ClusterMember::Options member;
    absl::Duration lost_after;  // Cluster.lost_after_ms
    // Called once, by the compute thread, when no device is left to compute with: no more
    // sessions are run. May be null.
    std::function<void()> on_device_lost;
    // Called once, by the compute thread, when the coordinator knows that the program has diverged
    // (session_status.h): no more sessions are run. May be null.
    std::function<void(const std::string& message)> on_program_diverged;
    ClusterMember::Calls calls;
  };

  // The clients and the runner must outlive this. `heartbeats` is apart, since a heartbeat
  // must not take longer than a worker may be silent.
  SessionHost(Options options, ReplicaClient* heartbeats, ReplicaClient* work,
              SessionRunner* runner);
  // Stops at once: the coordinator finds out by silence.
  ~SessionHost();

  // Begins to join.
  void Start();

  // Finishes the step, pushes the tail, reports, tells the coordinator and
  // stops. Blocks `grace` and one call to the coordinator at most; what was not
  // done by then is given up.
  void Drain(absl::Duration grace);

 private:
  void Run();
  void Depart();
  // False: no more are to be run.
  bool RunSession(const Assignment& assignment);
  void LogEnd(const SessionKey& session, const SessionEnd& end) const;
  // True: the job ends by it, as far as that is known.
  bool ReportFailure(const SessionKey& session, const SessionEnd& end);
  // Begins no more sessions, and stops or drains the one that runs.
  void Wind(bool drain);
  bool winding() const;

  const Options options_;
  ReplicaClient* const work_;
  SessionRunner* const runner_;
  ClusterMember member_;

  mutable Mutex mutex_;
  CondVar changed_;
  SessionControl* control_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the running session
  bool winding_ ABSL_GUARDED_BY(mutex_) = false;
  bool drains_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;  // the compute thread
};

}  // namespace monsoon
