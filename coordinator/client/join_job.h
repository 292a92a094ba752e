// JoinJob: all that a process needs to become a replica of a job, in one call.
//
//   ReplicaMembership membership({.cluster = "lab", .task = 2, .pid = getpid()});
//   ASSIGN_OR_RETURN(JoinedJob joined, JoinJob(coordinator, &membership, {}));
//   joined.client_options.deadline = absl::Seconds(5);
//   ASSIGN_OR_RETURN(auto shards, ParameterClient::Create(joined.client_options));
//   ... fetch, compute, push; ReplicaClient::NextWork with joined.session ...
//
// From then on the process is a member: it must send membership.MakeRequest()
// every membership.heartbeat(), with joined.session in it, and Apply the answers,
// else the coordinator takes it for lost and its session is closed.
//
// Reads no data and computes nothing: what the job trains on is in joined.job.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/model/parameter_layout.h"
#include "coordinator/client/replica_client.h"
#include "coordinator/client/replica_membership.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

// One session of one job, ready to be run. A plain value.
struct JoinedJob {
  SessionKey session;
  Job job;
  // Of the job's model; its hash is the coordinator's.
  ParameterLayout layout;
  // Job, session, layout hash, shard map, addresses, epochs and formats. The
  // caller may set the deadline, the transport and planned faults.
  ParameterClientOptions client_options;
  // Of the data sets as the job's first replica read them; 0: not known yet. A
  // replica that reads other data must not train.
  uint64_t train_fingerprint = 0;
  uint64_t test_fingerprint = 0;
  // Pushes are to be kept until they are durable (client_options.keep_bytes, which the
  // caller sets).
  bool keep_pushes = false;
};

// What `assignment` comes to; no I/O. InvalidArgument when its model is invalid,
// when this build derives another layout from it than the coordinator, or when
// its shards do not fit the layout or each other.
absl::StatusOr<JoinedJob> MakeJoinedJob(const Assignment& assignment);

// Ends a JoinJob from another thread. Thread safe.
class JoinCancellation {
 public:
  // Final.
  void Cancel();
  // Waits so long, or until it is cancelled. Returns whether it is.
  bool WaitFor(absl::Duration duration);

 private:
  Mutex mutex_;
  CondVar changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

struct JoinJobOptions {
  // For the whole call. The last heartbeat begins before it is over and may take
  // as long as the ReplicaClient lets it.
  absl::Duration deadline = absl::Minutes(1);
  const Clock* clock = Clock::Real();        // what the deadline runs on
  JoinCancellation* cancellation = nullptr;  // must outlive the call; may be null
};

// Beats until `coordinator` assigns a session that `membership` has not left, and
// returns what it takes to run it. A coordinator that is not there may start
// later, so it is asked again until the deadline. All changes are kept in `membership`, also
// when the call fails, so that calling again goes on.
//   DEADLINE_EXCEEDED  names the worker and what it waited for: the coordinator,
//                      with the last error, or a job
//   CANCELLED          the same, when options.cancellation ended it
//   INVALID_ARGUMENT   see MakeJoinedJob
//   others             FAILED_PRECONDITION, NOT_FOUND, PERMISSION_DENIED and so on: the
//                      coordinator refuses this worker for good (of another
//                      cluster, protocol version or task)
// Thread safety: `membership` is used by this call only until it returns.
absl::StatusOr<JoinedJob> JoinJob(ReplicaClient* coordinator, ReplicaMembership* membership,
                                  const JoinJobOptions& options);

}  // namespace monsoon
