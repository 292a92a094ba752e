// WorkSource: asks the coordinator what to do next in a session.
//
// Thread safety: none; one call at a time, from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "worker/session/done_part.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

// What a replica has finished since its last request.
struct FinishedWork {
  std::vector<DonePart> parts;
  std::vector<ContributionResult> contributions;
  // The shards that have all its pushes (NextWorkRequest).
  std::vector<uint64_t> ready_epochs;
  // At the end of the session: where all its pushes are (likewise).
  std::vector<uint64_t> durable_in;
  uint64_t pushes = 0;  // with that: in all
  // Of one that trains synchronously: how far it has come.
  std::optional<SynchronousReport> synchronous;

  bool empty() const { return parts.empty() && contributions.empty() && !synchronous; }
};

class WorkSource {
 public:
  // All must outlive this.
  WorkSource(ReplicaClient* client, SessionKey session, const StatsCollector* stats,
             SessionControl* control);

  // Reports `done` and returns what to do. While the coordinator cannot be
  // reached the same request is repeated, with growing pauses, until the
  // session is drained or stopped (CANCELLED). FailedPrecondition: the
  // coordinator does not know the session any more.
  absl::StatusOr<NextWorkReply> Next(FinishedWork done);

  // From now on each request says that there are no more samples to train on
  // (JoinersSource.unnumbered). From any thread.
  void NoMoreSamples() { no_more_samples_ = true; }

  // From now on each request ends the job's training (NextWorkRequest.end_job). The shards have
  // what this replica has pushed. From any thread.
  void EndJob() { end_job_ = true; }

  // Reports `done`, for a replica that leaves; the answer does not matter. Once, or again until
  // `patience` has passed where the coordinator cannot be reached.
  absl::Status ReportLast(FinishedWork done, absl::Duration patience = absl::ZeroDuration());

 private:
  NextWorkRequest MakeRequest(FinishedWork done);

  ReplicaClient* const client_;
  const SessionKey session_;
  const StatsCollector* const stats_;
  SessionControl* const control_;
  uint64_t request_ = 0;
  std::atomic<bool> no_more_samples_ = false;
  std::atomic<bool> end_job_ = false;
};

// Whether repeating a call to the coordinator can help.
bool IsTransient(const absl::Status& status);

}  // namespace monsoon
