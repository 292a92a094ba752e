// SimulatedWorker: a worker's process in virtual time: the real membership, a
// SimulatedSender for each session, and what worker/session and worker/replica do around
// them. Which blocks it has trained on it notes in the world's books.
//
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/client/replica_membership.h"
#include "coordinator/core/coordinator_core.h"
#include "proto/coordinator.pb.h"
#include "tests/simulation/simulated_sender.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

// What a worker knows of the session that it runs.
struct WorkerSession {
  SessionKey key;
  SessionId id;
  std::shared_ptr<SimulatedSender> sender;
  std::deque<BlockId> queue;
  uint32_t pushes_left = 0;  // of the block at hand
  BlockId block;
  std::deque<std::pair<BlockId, uint64_t>> trained;  // with the last push of each
  uint64_t request = 0;
  bool asking = false;
  std::optional<NextWorkReply> held;
  absl::Duration ask_after;
  bool flushes = false;
  bool finishes = false;
  bool drains = false;
  bool stands_still = false;
  absl::Duration drain_until;
  absl::Duration heard;  // from the coordinator
};

class SimulatedWorker {
 public:
  SimulatedWorker(World* world, uint32_t task) : world_(world), task_(task) {}

  SimulatedProcess process;

  void Start();
  void Kill();
  // The connection to the shard breaks, if there is a session.
  void Break(uint32_t shard);
  // For the message of a test that fails.
  std::string Describe() const;

 private:
  // Like VirtualNetwork::In, but not once the session is over.
  void InSession(absl::Duration delay, std::function<void()> what);

  template <typename Reply>
  void AskCoordinator(std::function<absl::StatusOr<Reply>(CoordinatorCore&, Moment)> call,
                      VirtualNetwork::Answer<Reply> done);

  // ---- membership ----
  void Beat();
  void OnBeat(const HeartbeatRequest& request, const absl::StatusOr<HeartbeatReply>& reply);
  void Enter(const Assignment& assignment);
  void Exit(bool rejoin);
  void Leave();

  // ---- work ----
  void Step();
  void TrainOneStep();
  void Ask();
  void Send(const NextWorkRequest& request, absl::Duration pause);
  void OnWork(const NextWorkRequest& request, absl::Duration pause,
              const absl::StatusOr<NextWorkReply>& reply);
  void Act(const NextWorkReply& reply);
  void Lease(const BlockId& block);
  void Evaluate(const NextWorkReply::Evaluate& work);
  void Report(const ReportEvaluationRequest& request);
  void TakeDone(NextWorkRequest* request);
  void Drain();

  World* const world_;
  const uint32_t task_;
  std::optional<ReplicaMembership> membership_;
  std::optional<WorkerSession> session_;
  uint64_t session_number_ = 0;
  bool beating_ = false;
  bool beat_now_ = false;
  bool told_to_leave_ = false;
  bool left_ = false;
};

}  // namespace monsoon::simulation
