// Replicas: the workers that take part in jobs: their sessions on the shards, what they report,
// and what becomes of a job when one fails or is lost.
//
// - A worker gets an assignment only after every shard has opened its session.
// - A lost worker's blocks are given away only after every shard has closed its session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/job/controller.h"
#include "coordinator/replicas/cut_workers.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// A worker that failed so often is left out of the job.
inline constexpr int kMaxReplicaFailures = 3;
// So many workers may be lost while they test a job's final parameters.
inline constexpr int kMaxLostFinalTests = 5;

// The event of a job whose final parameters do no better than guessing.
inline constexpr char kAtChance[] = "at_chance";

class Replicas : public Controller {
 public:
  // A worker that is lost makes generations due.
  Replicas(Registry* registry, Checkpoints* checkpoints)
      : Controller(registry), checkpoints_(checkpoints), cut_(registry) {}

  // ---- heartbeats ----
  // Who sent it; what it reports is counted, and a session that is over by it is closed.
  absl::StatusOr<Membership::Heard> Hear(const HeartbeatRequest& request, Moment moment,
                                         const MemberIdentity& sender);
  // What a worker that is there is told, once jobs have gone on.
  void Answer(const Membership::Heard& heard, HeartbeatReply* reply) const;
  // Workers that are silent for too long are lost, and those that do not reach a shard.
  void FindLost(absl::Duration now);

  // ---- sessions ----
  // What is answered to a request for work that its job's procedure is not to see; nothing: it
  // is, and what is reported with it is counted.
  std::optional<absl::StatusOr<NextWorkReply>> WithoutWork(const NextWorkRequest& request,
                                                           absl::Duration now);
  // Of a session that is not over.
  absl::Status ReportEvaluation(const ReportEvaluationRequest& request, absl::Duration now);
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request);
  absl::Status ReportFailure(const ReportFailureRequest& request, absl::Duration now);
  void CloseSession(uint32_t worker, const std::string& kind, const std::string& text,
                    absl::Duration now);
  // After all jobs are recovered: sessions of workers that are no more.
  void CloseAbsent(absl::Duration now);

  // Takes note of sessions that shards have opened, refused or closed.
  bool Advance(JobRecord* job, absl::Duration now) override;
  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;
  void OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                absl::Duration now) override;
  std::string WaitsFor(const JobRecord& job, Moment moment) const override {
    return cut_.WaitsFor(job, moment.now);
  }
  void Recover(JobRecord* job, absl::Duration now) override;

 private:
  void BeginReplica(JobRecord* job, uint32_t worker, absl::Duration now);
  void EndReplica(JobRecord* job, const DurableSession& session, absl::Duration now);
  // A worker that was told to finish and has: a shard that is started anew knows no more that it
  // has nothing to push, so that rounds would wait for its session while others have yet to leave.
  void CloseIfFinished(uint32_t worker, const HeartbeatRequest& request, absl::Duration now);
  void RecordStats(JobRecord* job, const SessionKey& session, const ReplicaStats& stats,
                   absl::Duration now);
  // An event of a replica that waits for a shard, but not too often.
  void TellOfWait(JobRecord* job, uint32_t worker, const std::string& why, absl::Duration now);
  // False: the worker was excluded.
  bool CheckFingerprint(JobRecord* job, uint32_t worker, bool train, uint64_t value,
                        absl::Duration now);
  // It takes no part in this job any more.
  void Exclude(JobRecord* job, uint32_t worker, const std::string& why, absl::Duration now);
  // It has failed, and others go on.
  void NoteFailure(JobRecord* job, uint32_t worker, const std::string& message, absl::Duration now);
  // A program can make nothing of use any more: others go on, or the job waits for them, or fails.
  void TakeDiverged(JobRecord* job, uint32_t worker, const std::string& message,
                    absl::Duration now);
  // Notes when the final parameters do no better on the test set than guessing.
  void CompareWithChance(JobRecord* job, const ReportEvaluationRequest& request,
                         absl::Duration now);
  // How soon a worker that runs nothing is to ask again.
  uint32_t IdleHeartbeatMs() const;

  Checkpoints* const checkpoints_;
  CutWorkers cut_;
};

}  // namespace monsoon
