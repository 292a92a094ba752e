// SimulatedReplicaClient: what a worker's process says to the coordinator, over the virtual
// network. A call parks the virtual thread that makes it.
//
// It stands where the worker's word leaves its process, and notes for the judge which blocks
// are reported and leased. What must not happen fails the running test.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/client/replica_client.h"
#include "coordinator/core/coordinator_core.h"
#include "proto/coordinator.pb.h"
#include "tests/simulation/simulated_process.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedReplicaClient final : public ReplicaClient {
 public:
  // Of the life that `process` has now.
  SimulatedReplicaClient(World* world, SimulatedProcess* process, absl::Duration deadline)
      : world_(world), process_(process), life_(process), deadline_(deadline) {}

  absl::StatusOr<EnterReply> Enter(const EnterRequest& request) override;
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request) override;
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request) override;
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(
      const ReportEvaluationRequest& request) override;
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request) override;
  absl::StatusOr<ClockReply> TellClock(const ClockRequest& request) override;
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request) override;

  // The newest heartbeat, for people.
  const HeartbeatRequest& last_beat() const { return last_beat_; }

 private:
  template <typename Reply>
  absl::StatusOr<Reply> Call(std::function<absl::StatusOr<Reply>(CoordinatorCore&, Moment)> call);
  void NoteDone(const NextWorkRequest& request);
  static uint64_t LastPush(const SessionBook& book, const BlockNumber& block);
  // The push that brings the session's step of this number.
  static uint64_t PushOfStep(const SessionBook& book, uint64_t step);
  void NoteLeases(const SessionKey& session, const NextWorkReply& reply);
  // No replica that trains is further behind than that.
  static void CheckLeast(World* world, const SessionKey& asker, uint64_t least);

  World* const world_;
  SimulatedProcess* const process_;
  const ProcessLife life_;
  const absl::Duration deadline_;
  HeartbeatRequest last_beat_;
};

}  // namespace monsoon::simulation
