// DownpourJob: what each replica of one Downpour job does next, from the first
// block to the end (Dean et al. 2012, section 4.1). It answers NextWork,
// schedules the warmstart and the evaluations, and decides when to stop.
//
//   kIdle -> [kWarmstart ->] kRunning -> kDraining -> kFinalEvaluation
//         -> kLeaving -> kDone
//
// kDraining: nothing more is leased, held blocks are being acknowledged.
// kLeaving: replicas are told to finish, for at most kLeaveTimeout. In a chain
// it is left out: replicas bring what they have pushed to shards that are started anew,
// and wait until the next procedure has work for them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/downpour/block_dispenser.h"
#include "coordinator/downpour/data_plan.h"
#include "coordinator/downpour/downpour_options.h"
#include "coordinator/downpour/push_clocks.h"
#include "coordinator/downpour/streams.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/procedure_base.h"
#include "coordinator/state/state_writer.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// What an event "finishing" begins with where a program has ended the training
// (NextWorkRequest.end_job).
inline constexpr char kEndedBy[] = "ended by ";

class DownpourJob : public ProcedureBase {
 public:
  // `writer`'s job has begun DOWNPOUR with options.resumed, and has come as far as its
  // state says: an earlier life of the coordinator may have brought it there.
  DownpourJob(const DownpourOptions& options, const JobWriter& writer);

  Procedure kind() const override { return DOWNPOUR; }
  bool pushes() const override { return true; }
  const char* work_name() const override { return "blocks"; }

  void AddReplica(uint32_t worker, absl::Duration now) override;
  uint64_t RemoveReplica(uint32_t worker, absl::Duration now) override;
  bool WorkIsNear(uint32_t) const override { return false; }
  absl::Status ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                absl::Duration now) override;
  absl::StatusOr<TakeStreamReply> TakeStream(uint32_t worker, const std::string& stream) override;
  void LeaveStreams(const SessionKey& session, std::optional<uint64_t> pushes) override;
  absl::StatusOr<ClockReply> TellClock(uint32_t worker, const ClockRequest& told) override;
  void NoteSteps(uint64_t steps) override;

  uint64_t work_done_by(uint32_t worker) const override;
  uint64_t examples_done() const override { return state().examples_done(); }
  double epoch() const override;
  double planned_epochs() const override;
  std::optional<uint64_t> planned_examples() const override;
  double fraction(absl::Duration now) const override;
  void Describe(JobDescription* description) const override;

  uint32_t rate_reductions() const override;
  bool brought_back() const override;
  const BlockDispenser& blocks() const { return blocks_; }
  DownpourProgress resumed() const override { return options_.resumed; }

 private:
  absl::Status TakeReport(uint32_t worker, const NextWorkRequest& request,
                          absl::Duration now) override;
  void Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) override;
  void Advance(absl::Duration now) override;
  bool Works(uint32_t worker) const override;
  uint64_t steps_done() const override { return state().steps(); }
  // All gradients of the block are acknowledged.
  void BlockIsDone(uint32_t worker, BlockRef block);
  void NoteRead(const NextWorkRequest& request);
  bool IsLive(uint32_t worker) const { return replicas_.contains(worker); }
  // It has said that it has no more samples.
  bool IsOut(uint32_t worker) const;
  // All replicas have, there is one, and none holds a block.
  bool AllAreOut() const;
  // Leases blocks into `reply`; false when there is none for `worker`.
  bool Train(uint32_t worker, NextWorkReply* reply);
  void BeginDraining(const std::string& why);
  // The program of `worker` ends the training: others finish what they hold, and what it holds
  // nobody computes any more.
  void EndBy(uint32_t worker);
  void StopBlocks(std::optional<uint32_t> worker);
  // What a new test result has brought about.
  void FollowTestResults(uint32_t reductions_before);
  const DownpourState& state() const { return job_.job().downpour(); }
  // The only replica that trains during the warmstart; nothing: nobody yet.
  void SetWarmReplica(std::optional<uint32_t> worker);
  bool IsWarmReplica(uint32_t worker) const {
    return state().has_warm_replica() && state().warm_replica() == worker;
  }

  const DownpourOptions options_;
  const DataPlan plan_;
  BlockDispenser blocks_;  // leases; what is done stands in the state too
  Streams streams_;
  std::optional<PushClocks> clocks_;  // with staleness_bound
  // By replica, what it said last after it was told to flush at the end of a chain's first part:
  // the lives of the shards that have all that it has pushed.
  std::map<uint32_t, std::vector<uint64_t>> ready_epochs_;
};

// The job, JOB_ACTIVE, begins to train so, with nothing done but what it resumes.
void BeginDownpour(const DownpourOptions& options, JobRecord* job);
// It goes on with what it has begun, in an earlier life of the coordinator.
void ContinueDownpour(const DownpourOptions& options, JobRecord* job);

}  // namespace monsoon
