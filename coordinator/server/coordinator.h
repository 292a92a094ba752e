// Coordinator: CoordinatorCore with a mutex, the time and threads around it.
// Per shard one thread polls and one carries out commands, so that a dead or
// slow shard delays nobody else; one thread ticks, and one is the minimiser of
// batch jobs. No call to a shard is made under the mutex.
//
// What leaves the coordinator, an answer or a command, waits until the updates of its state
// that it rests on are in the journal. While that cannot be written calls answer
// UNAVAILABLE with the reason; those that only look (List, Describe, Info) say it.
//
// Thread safety: all calls may run concurrently. They do not block on the
// network, but for Delete and Submit, which wait a bounded time for shards and workers, and
// NextWork, which holds the question of a replica that has nothing to do while a minimiser is about
// to have work: one way, in place of a question that just missed it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/latest_text.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/security/caller.h"
#include "common/security/revocations.h"
#include "coordinator/core/awake_time.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/job/job_plan.h"
#include "coordinator/journal/committer.h"
#include "coordinator/journal/journal.h"
#include "coordinator/members/members.h"
#include "coordinator/replicas/data_look.h"
#include "coordinator/shards/shard_gateway.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

class Coordinator {
 public:
  // `cluster` has its defaults filled in; one gateway per ps task, in order.
  // `clock` must outlive this. `opened`: where an earlier life of it ended; by default there
  // was none, and nothing is kept.
  Coordinator(const Cluster& cluster, std::vector<std::unique_ptr<ShardGateway>> shards,
              const Clock* clock, OpenedJournal opened = OpenedJournal());
  // From now on shards are asked and told things, and time counts. Once.
  void Begin();
  // Ends the threads; waits for calls to shards that are under way.
  ~Coordinator();

  // What follows may be called before Begin, too.

  // FAILED_PRECONDITION unless `cluster` is this one, or empty.
  absl::Status CheckCluster(const std::string& cluster) const;
  // Also judges the job, and waits for workers that look at its data files, if there are workers,
  // for kLookFor and a heartbeat at most. The job is in the caller's share of the list.
  absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request, const Caller& caller);
  absl::StatusOr<JobSummary> Start(const std::string& job);
  absl::StatusOr<ListReply> List();
  absl::StatusOr<JobDescription> Describe(const std::string& job);
  absl::StatusOr<JobSummary> Cancel(const std::string& job);
  absl::StatusOr<CheckpointOrder> Checkpoint(const std::string& job);
  absl::StatusOr<JobSummary> Delete(const std::string& job);
  absl::StatusOr<JobLocation> Locate(const std::string& job);
  absl::StatusOr<InfoReply> Info();
  absl::StatusOr<TaskStatus> Drain(uint32_t worker);
  absl::StatusOr<GiveUpReply> GiveUp(const GiveUpRequest& request);
  absl::StatusOr<SetReply> Set(const SetRequest& request) {
    return Answer([&](Moment moment) {
      mutex_.AssertHeld();
      return core_.Set(request, &JobPlan::Judge, moment);
    });
  }
  // What proto/member.proto asks: `ask` gets Members and the moment; it gives an absl::StatusOr.
  template <typename Function>
  auto AskMembers(Function ask) {
    return Answer([&](Moment moment) {
      mutex_.AssertHeld();
      return ask(core_.members(), moment);
    });
  }
  // Keys whose holders are to be served no more. Thread safe; lives as long as this.
  const RevokedKeys* revoked_keys();
  // Members::TakesJoiners, now.
  bool TakesJoiners();
  // RpcServerOptions.on_trouble: Info and Describe tell it.
  void NoteTrouble(const std::string& trouble) { trouble_.Set(trouble); }

  // As Submit; PERMISSION_DENIED where the caller's certificate is another worker's, or for another
  // job (Members), as of all that workers ask.
  absl::StatusOr<EnterReply> Enter(const EnterRequest& request, const Caller& caller = Caller());
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request,
                                           const Caller& caller = Caller());
  absl::Status CheckSession(const SessionKey& session, const Caller& caller);
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request);
  absl::StatusOr<ReportEvaluationReply> ReportEvaluation(const ReportEvaluationRequest& request);
  absl::StatusOr<TakeStreamReply> TakeStream(const TakeStreamRequest& request);
  absl::StatusOr<ClockReply> TellClock(const ClockRequest& request) {
    MutexLock lock(&mutex_);
    return core_.TellClock(request);  // nothing is written that it would have to wait for
  }
  absl::StatusOr<ReportFailureReply> ReportFailure(const ReportFailureRequest& request);

 private:
  // What workers have found in the data files of the plan's job. `number` is of the question,
  // which the caller ends; 0: no worker is there, or the job has no files.
  std::optional<DataVerdict> AwaitLook(const JobPlan& plan, uint64_t* number);

  // Threads look up so often, whatever happens.
  static constexpr absl::Duration kIdleWait = absl::Seconds(1);

  struct Shard {
    std::unique_ptr<ShardGateway> gateway;
    std::deque<std::pair<ShardCommand, uint64_t>> commands;  // with tickets; guarded by mutex_
    uint64_t polled_round = 0;                               // guarded by mutex_
    std::thread poll_thread;
    std::thread command_thread;
  };

  Moment Time() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands the core's commands to the shards' threads. After every core call.
  void Dispatch(Moment moment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `ticket`, if any: what an answer has to wait for.
  template <typename Function>
  auto WithCore(Function function, uint64_t* ticket = nullptr)
      -> decltype(function(std::declval<Moment>()));
  // The same, for an answer that leaves this process: a Status or StatusOr.
  template <typename Function>
  auto Answer(Function function) -> decltype(function(std::declval<Moment>()));
  absl::Status AwaitJournal(uint64_t ticket);
  // For a thread that tells shards something; false: the coordinator stops.
  bool AwaitWritten(uint64_t ticket) {
    while (!committer_.Await(ticket, kIdleWait)) {
      MutexLock lock(&mutex_);
      if (stopping_) {
        return false;
      }
    }
    return true;
  }
  // `ticket`: what the answer has to wait for.
  absl::StatusOr<NextWorkReply> AskForWork(const NextWorkRequest& request, uint64_t* ticket);

  void TickLoop();
  void PollLoop(uint32_t index);
  void CommandLoop(uint32_t index);

  // The minimiser's thread: one batch job after another.
  class Seat;
  void BatchLoop();
  absl::StatusOr<BatchEnd> RunBatchTask(const BatchTask& task);

  const Cluster cluster_;
  const Clock* const clock_;
  // The core's time goes on where the last life's ended: what passed between is nobody's
  // training time.
  const absl::Duration time_offset_;
  Committer committer_;
  LatestText trouble_;  // why others may not reach this coordinator at its address

  Mutex mutex_;
  CondVar changed_;  // commands, a new poll round, a change of jobs, or the end
  CondVar tick_;     // wakes the ticking thread early
  CondVar work_;     // an evaluation began, or the end
  uint32_t held_ ABSL_GUARDED_BY(mutex_) = 0;  // questions being held
  AwakeTime awake_ ABSL_GUARDED_BY(mutex_);
  CoordinatorCore core_ ABSL_GUARDED_BY(mutex_);
  uint64_t ticket_ ABSL_GUARDED_BY(mutex_) = 0;  // of the newest call
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  // The vector itself is constant.
  std::vector<Shard> shards_;
  std::thread tick_thread_;
  std::thread batch_thread_;
};

template <typename Function>
auto Coordinator::WithCore(Function function, uint64_t* ticket)
    -> decltype(function(std::declval<Moment>())) {
  MutexLock lock(&mutex_);
  const Moment moment = Time();
  auto result = function(moment);
  Dispatch(moment);
  if (ticket != nullptr) {
    *ticket = ticket_;
  }
  return result;
}

template <typename Function>
auto Coordinator::Answer(Function function) -> decltype(function(std::declval<Moment>())) {
  uint64_t ticket = 0;
  auto result = WithCore(function, &ticket);
  RETURN_IF_ERROR(AwaitJournal(ticket));
  return result;
}

}  // namespace monsoon
