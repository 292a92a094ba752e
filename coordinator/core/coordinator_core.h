// CoordinatorCore: the coordinator as one state machine. Jobs in a first-in
// first-out queue with one running at a time on the cluster's workers, joined jobs beside
// it whose programs bring their own replicas. What it wants of the shards it leaves in
// TakeCommands; the driver (coordinator/server) brings answers, poll results and the time.
//
// It is a loop over controllers, each of which looks after one thing that jobs need. Their order
// is law; recovery and exactly-once rest on it:
// - a worker gets an assignment only after every shard has opened its session;
// - a lost worker's blocks are given away only after every shard has closed
//   its session;
// - a job ends only after all its sessions are closed;
// - a shard that was started anew gets the job's slice back before anything else is asked
//   of it, and without the sessions that are closed or being closed; only then do workers
//   learn of its new life;
// - a batch whose minimiser has seen anything that is gone returns to a generation that
//   all shards hold, and all of them with it;
// - a job on shards that keep state succeeds only when its last checkpoint is on the disk
//   of all of them.
//
// What must survive is in CoordinatorState, which only updates change. It never sees
// a parameter. No threads, clocks, randomness or gRPC. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/core/job_course.h"
#include "coordinator/core/requests.h"
#include "coordinator/downpour/rate_orders.h"
#include "coordinator/downpour/settings_orders.h"
#include "coordinator/job/controller.h"
#include "coordinator/job/registry.h"
#include "coordinator/members/members.h"
#include "coordinator/replicas/data_looks.h"
#include "coordinator/replicas/entering.h"
#include "coordinator/replicas/recruitment.h"
#include "coordinator/replicas/replicas.h"
#include "coordinator/sandblaster/batch_control.h"
#include "coordinator/slices/journal_guard.h"
#include "coordinator/slices/restores.h"
#include "coordinator/slices/slices.h"
#include "coordinator/slices/terms.h"
#include "coordinator/state/state_writer.h"
#include "coordinator/status/wait_reason.h"
#include "coordinator/synchronous/store_orders.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

class CoordinatorCore {
 public:
  // `cluster` has its defaults filled in.
  // `observer` gets each update of the durable state, in order; it may be null. `state`: with
  // which an earlier life ended; moment.now is not below any time in it.
  CoordinatorCore(const Cluster& cluster, uint32_t pid, Moment moment,
                  StateWriter::Observer observer = nullptr,
                  CoordinatorState state = CoordinatorState());

  // ---- for people ----
  // A submission whose client id is known gives its job again, and makes none.
  // INVALID_ARGUMENT for a resume point that does not fit the job. submission.unix_ms is
  // filled in here.
  absl::StatusOr<SubmitReply> Submit(const JobPlan& plan, JobTable::Submission submission,
                                     Moment moment) {
    RETURN_IF_ERROR(guard_.Check());
    return requests_.Submit(plan, std::move(submission), moment);
  }
  // What workers see in the data files of a job that is to be submitted.
  DataLooks& data_looks() { return data_looks_; }
  absl::StatusOr<JobSummary> Start(const std::string& job, Moment moment) {
    RETURN_IF_ERROR(guard_.Check());
    return requests_.Start(job, moment);
  }
  ListReply List(Moment moment) const { return requests_.List(moment); }
  absl::StatusOr<JobDescription> Describe(const std::string& job, Moment moment) const {
    return requests_.Describe(job, moment);
  }
  // Safe to repeat. FAILED_PRECONDITION for a job that has ended otherwise.
  absl::StatusOr<JobSummary> Cancel(const std::string& job, Moment moment) {
    RETURN_IF_ERROR(guard_.Check());
    return requests_.Cancel(job, moment);
  }
  // Orders a checkpoint of what is applied now. FAILED_PRECONDITION for a job that has
  // not begun to train, is kept in memory only, or has lost its parameters.
  absl::StatusOr<CheckpointOrder> Checkpoint(const std::string& job, Moment moment);
  // `judge` says whether the changed job as a whole is valid; nothing changes where it is not.
  // Errors: proto/coordinator.proto.
  absl::StatusOr<SetReply> Set(const SetRequest& request, const Requests::Judge& judge,
                               Moment moment) {
    RETURN_IF_ERROR(guard_.Check());
    return requests_.Set(request, judge, moment);
  }
  // Begins to free the slices; the job is gone when the state has it no more.
  absl::StatusOr<JobSummary> Delete(const std::string& job, Moment moment) {
    RETURN_IF_ERROR(guard_.Check());
    return requests_.Delete(job, moment);
  }
  // UNAVAILABLE while a shard that holds a part of the job does not answer.
  absl::StatusOr<JobLocation> Locate(const std::string& job, Moment moment) const {
    return requests_.Locate(job, moment);
  }
  InfoReply Info(Moment moment) const { return requests_.Info(moment); }
  // As Membership::Drain. What its session has done stays, and the rest is others'.
  absl::StatusOr<TaskStatus> Drain(uint32_t worker) {
    RETURN_IF_ERROR(guard_.Check());
    return requests_.Drain(worker);
  }
  // The state folder of ps/I will not come back (Restores::GiveUp), or the newer one of
  // coordinator/0 (JournalGuard::GiveUp), whose unfinished jobs fail. INVALID_ARGUMENT for another
  // task.
  absl::StatusOr<GiveUpReply> GiveUp(const std::string& task, const std::string& by, Moment moment);

  // ---- for workers ----
  // `plan` is of request.job(), and CheckProgram is content. What is missing on the way is
  // told as a part to wait for. Errors: proto/coordinator.proto, and RESOURCE_EXHAUSTED as
  // for Submit. `by`: whose the job is where it is made, as in JobTable::Admit.
  absl::StatusOr<EnterReply> Enter(const EnterRequest& request, const JobPlan& plan, Moment moment,
                                   const std::string& by = "");
  // `sender`: which member's it is; unset where it proves nothing.
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request, Moment moment,
                                           const MemberIdentity& sender = {});
  using OnWait = JobProcedure::OnWait;
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request, Moment moment,
                                         OnWait on_wait = OnWait::kTell);
  absl::Status ReportEvaluation(const ReportEvaluationRequest& request, Moment moment);
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request, Moment moment);
  // Changes nothing that is durable.
  absl::StatusOr<ClockReply> TellClock(const ClockRequest& request);
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request,
                                                   Moment moment);

  // ---- for the minimiser's thread ----
  // The job to minimise now, once for each attempt; nothing where there is none.
  std::optional<BatchTask> TakeBatch() {
    return guard_.MayAct() ? batches_.TakeBatch() : std::nullopt;
  }
  // Whether one runs, whether it waits, what it evaluates and what that has come to.
  BatchControl& batches() { return batches_; }
  // The session's replica was told to wait, and the minimiser will have work for it
  // within milliseconds.
  bool WorkIsNear(const SessionKey& session);
  // How the minimiser ended; an error fails the job, but CANCELLED, and one that says that
  // a shard was started anew where the batch can return.
  void EndBatch(const BatchKey& batch, const absl::StatusOr<BatchEnd>& end, Moment moment);

  // ---- for the driver ----
  // Who may join the cluster, and who has.
  Members* members() { return &members_; }
  // What the state is kept in; begun, where anything is kept, before anything else is done.
  JournalGuard* journal() { return &guard_; }
  // A new poll round begins; its number.
  uint64_t BeginPoll();
  // True: do not wait for the next heartbeat to poll.
  bool wants_poll() const {
    return checkpoints_.wants_poll() || endings_.wants_poll() || members_.wants_poll();
  }
  void OnPoll(uint32_t shard, uint64_t round, const absl::StatusOr<ShardStatusReply>& reply,
              Moment moment);
  void OnCommand(const ShardCommand& command, const ShardAnswer& answer, Moment moment);
  void Tick(Moment moment);
  // This process stood still and could hear nobody (AwakeTime): before the next Tick. Workers and
  // shards have their whole deadlines again.
  void ForgiveSilence(absl::Duration now);
  // The commands to carry out now, in order per shard.
  std::vector<ShardCommand> TakeCommands(Moment moment);
  // Lines for the log since the last call.
  std::vector<std::string> TakeLog() { return std::exchange(registry_.log, {}); }
  const CoordinatorState& state() const { return registry_.writer.state(); }

 private:
  // Brings all jobs as far as may be now.
  void Advance(absl::Duration now);
  // The same for one that is active or ending.
  void AdvanceActive(JobRecord* job, absl::Duration now);
  // Its slices are there, with their parameters.
  void Activate(JobRecord* job, absl::Duration now);
  void OnShardChange(const ShardChange& change, absl::Duration now);
  // Goes on where an earlier life of the coordinator ended.
  void Recover(absl::Duration now);

  Registry registry_;
  DataLooks data_looks_{&registry_};
  Slices slices_{&registry_};
  Restores restores_{&registry_, &slices_};
  Entering entering_{&registry_};
  Checkpoints checkpoints_{&registry_};
  Replicas replicas_{&registry_, &checkpoints_};
  Endings endings_{&registry_, &checkpoints_};
  BatchControl batches_{&registry_, &checkpoints_};
  Procedures procedures_{&registry_, &batches_};
  // What shards are told of how a job goes on.
  struct {
    RateOrders rates;
    StoreOrders stores;
    SettingsOrders settings;
  } orders_{RateOrders(&registry_), StoreOrders(&registry_), SettingsOrders(&registry_)};
  Succession succession_{&registry_, &procedures_};
  Recruitment recruitment_{&registry_};
  Terms terms_{&registry_};
  JournalGuard guard_{&registry_};
  Members members_;
  // All controllers; the order says why in the source.
  const std::vector<Controller*> order_;
  WaitReasons reasons_;
  Requests requests_;
};

}  // namespace monsoon
