// ClusterMember: keeps this worker a member of the cluster by heartbeats, brings
// the running session's statistics, and learns what to run.
//
// The coordinator may start later, go away and come back: heartbeats go on for
// ever, each bounded by the client's deadline.
//
// Thread safety: all calls may run concurrently. A session entered must be left
// before its stats and control end.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/new_reasons.h"
#include "common/base/thread.h"
#include "coordinator/client/replica_client.h"
#include "coordinator/client/replica_membership.h"
#include "proto/coordinator.pb.h"
#include "proto/data_report.pb.h"
#include "proto/job.pb.h"
#include "worker/session/data_looker.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

class ClusterMember {
 public:
  using Options = ReplicaMembership::Options;

  // What the coordinator says beside sessions; the thread that beats calls them. Each may be null.
  struct Calls {
    // Once: this worker can never join (another cluster, a task that is not there, another
    // version).
    std::function<void(const absl::Status&)> on_refused;
    // Once: this worker is to leave.
    std::function<void()> on_drain;
    // Once: how, and why, the job that this guest entered has ended.
    std::function<void(JobState state, const std::string& reason)> on_job_ended;
    // While no session runs, with each heartbeat that says so: the guest's job needs its initial
    // parameters again.
    std::function<void()> on_enter_again;
    // Not told but asked, in a thread of its own: what the data files of a job are, as this process
    // sees them.
    std::function<DataReport(const Job& job)> look_at_data;
  };

  // `client` must outlive this.
  ClusterMember(Options options, ReplicaClient* client) : ClusterMember(options, client, {}) {}
  ClusterMember(Options options, ReplicaClient* client, Calls calls);
  ~ClusterMember();

  // Beats in a thread of its own from now on.
  void Start();

  // One heartbeat now. Start's thread calls it; so do tests, in its place.
  void Beat();

  // Waits for a session that was not run before; nothing after `timeout`.
  std::optional<Assignment> AwaitAssignment(absl::Duration timeout);

  // Heartbeats speak for this session until Exit. A heartbeat whose answer
  // takes the session away stops `control`.
  void Enter(const SessionKey& session, const StatsCollector* stats, SessionControl* control);
  // The session is over and will not be run again. `rejoin`: the shards or the
  // coordinator lost it: join as a new incarnation.
  void Exit(bool rejoin);

  // Tells the coordinator once that this worker leaves, and beats no more.
  absl::Status Depart();

 private:
  HeartbeatRequest MakeRequest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Apply(const HeartbeatRequest& request, const HeartbeatReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: the worker can never join.
  bool Missed(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  void BeatNow();

  ReplicaClient* const client_;
  const Calls calls_;

  // One heartbeat at a time; before mutex_.
  Mutex beat_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  Mutex mutex_;
  CondVar changed_;
  ReplicaMembership membership_ ABSL_GUARDED_BY(mutex_);
  NewReasons troubles_ ABSL_GUARDED_BY(mutex_);  // since the last answer; each is logged once
  std::optional<SessionKey> session_ ABSL_GUARDED_BY(mutex_);
  const StatsCollector* stats_ ABSL_GUARDED_BY(mutex_) = nullptr;
  SessionControl* control_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool beat_now_ ABSL_GUARDED_BY(mutex_) = false;
  bool drains_ ABSL_GUARDED_BY(mutex_) = false;  // it was told to leave
  bool job_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
  DataLooker looker_;  // ends first: it asks for heartbeats
};

}  // namespace monsoon
