// FuzzedCoordinator: a CoordinatorCore with two shards that do as they are told, or die, and
// what people, workers, programs and a minimiser may say to it, one FuzzCall after another. Each
// call is answered, with an error of a kind that its sender can act on.
//
// With the first flag a call begins as a right one, into which its message is merged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/testing/fuzz/fuzz_answer.h"
#include "common/testing/fuzz/fuzz_calls.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/core_fuzz_jobs.h"
#include "coordinator/core/fuzzed_shards.h"
#include "coordinator/job/job_plan.h"
#include "google/protobuf/text_format.h"

namespace monsoon::testing {

inline void CheckAnswer(const absl::Status& status) { CHECK_OK(JudgeFuzzAnswer(status)); }

class FuzzedCoordinator {
 public:
  // Whoever looks on; both may be null.
  struct Observer {
    std::function<void(const StateUpdate&)> on_update;
    std::function<void(const ShardCommand&)> on_command;
  };

  explicit FuzzedCoordinator(Observer observer = {}) : observer_(std::move(observer)) {
    RestartCoordinator();
  }

  void Serve(const FuzzCall& call) {
    Call(call);
    Settle();
    CHECK_EQ(core_->List(now()).job_size(), core_->state().snapshot().job_size());
  }

  CoordinatorCore& core() { return *core_; }
  Moment now() const { return {now_, absl::ToInt64Milliseconds(now_)}; }

  // What people look at, and what the next life begins with.
  void End() {
    core_->Info(now());
    const ListReply list = core_->List(now());
    for (const JobSummary& job : list.job()) {
      CHECK_OK(core_->Describe(job.job(), now()).status());
    }
    CoordinatorState replayed;
    for (const StateUpdate& update : updates_) {
      CHECK_OK(replayed.Apply(update));
    }
    CHECK_EQ(replayed.Serialize(), core_->state().Serialize());
  }

 private:
  // Nothing for what gRPC would not have taken for a message.
  template <typename Request>
  static std::optional<Request> Read(const FuzzCall& call, const Request& right) {
    Request request;
    if (call.flag(0)) {
      request = right;
    }
    return request.MergeFromString(call.message) ? std::optional(std::move(request)) : std::nullopt;
  }

  // The job that is named, or the newest.
  static std::string JobOf(const FuzzCall& call) { return call.flag(0) ? "latest" : call.message; }

  // A right call is from this worker.
  uint32_t WorkerOf(const FuzzCall& call) const { return call.flag(1) ? 1 : 0; }

  // What a worker's session asks.
  template <typename Request, typename Serve>
  void OfSession(const FuzzCall& call, Request right, Serve serve) {
    *right.mutable_session() = workers_[WorkerOf(call)].session;
    if (const auto request = Read(call, right)) CheckAnswer(serve(*request));
  }

  void TakeOrTell(const FuzzCall& call) {
    TakeStreamRequest stream;
    stream.set_stream("part-0");
    const auto take = [this](const auto& asked) {
      return core_->TakeStream(asked, now()).status();
    };
    const auto tell = [this](const auto& asked) { return core_->TellClock(asked).status(); };
    call.flag(5) ? OfSession(call, ClockRequest(), tell) : OfSession(call, stream, take);
  }

  void Evaluated(const FuzzCall& call) {
    ReportEvaluationRequest right;
    right.set_evaluation(workers_[WorkerOf(call)].told.evaluate().evaluation());
    right.set_examples(10);
    right.set_correct(5);
    OfSession(call, right, [this](const ReportEvaluationRequest& request) {
      return core_->ReportEvaluation(request, now());
    });
  }

  void Call(const FuzzCall& call) {
    switch (call.kind % 18) {
      case 0:
        return call.flag(4) ? Enter(call) : Submit(call);
      case 1:
      case 2:
        return Beat(call);
      case 3:
      case 4:
        return Ask(call);
      case 5:
        return call.flag(4) || call.flag(5) ? TakeOrTell(call) : Evaluated(call);
      case 6: {
        ReportFailureRequest right;
        right.set_message("it broke");
        return OfSession(call, right, [this](const ReportFailureRequest& request) {
          return core_->ReportFailure(request, now()).status();
        });
      }
      case 7: {
        DrainRequest right;
        right.set_worker(WorkerOf(call));
        if (const auto request = Read(call, right)) {
          CheckAnswer(core_->Drain(request->worker()).status());
        }
        return;
      }
      case 8:
        return call.flag(4) ? Set(call)
                            : CheckAnswer(core_->Checkpoint(JobOf(call), now()).status());
      case 9:
        return CheckAnswer(core_->Cancel(JobOf(call), now()).status());
      case 10:
        return CheckAnswer(core_->Delete(JobOf(call), now()).status());
      case 11:
        return CheckAnswer(core_->Start(JobOf(call), now()).status());
      case 12:
        CheckAnswer(core_->Describe(JobOf(call), now()).status());
        return CheckAnswer(core_->Locate(JobOf(call), now()).status());
      case 13:
        return Poll(call);
      case 14:
        return Pass(call);
      case 15:
        return Minimise(call);
      case 16:
        return shards_.Trouble(WorkerOf(call), call.flags >> 2 & 3);
      default:
        return RestartCoordinator();
    }
  }

  void Submit(const FuzzCall& call) {
    SubmitRequest right;
    const char* const text = call.flag(1) ? kSandblaster : kDownpour;
    CHECK(google::protobuf::TextFormat::ParseFromString(text, right.mutable_job()));
    const Dataset data = right.job().train();
    auto request = Read(call, right);
    if (!request.has_value()) {
      return;
    }
    // No file of this machine is read, nor a plan of thousands of blocks made.
    Job* const job = request->mutable_job();
    for (Dataset* const set : {job->mutable_train(), job->mutable_test()}) {
      if (!set->has_synthetic()) {
        *set = data;
      }
      set->mutable_synthetic()->set_examples(std::min(set->synthetic().examples(), kMostExamples));
    }
    const absl::StatusOr<JobPlan> plan = JobPlan::Make(*job, cluster_);
    CheckAnswer(plan.status());
    if (!plan.ok()) {
      return;
    }
    JobTable::Submission submission{.client_id = request->client_id(), .init = request->init()};
    if (request->has_resume()) {
      submission.resume = request->resume();
    }
    CheckAnswer(core_->Submit(*plan, submission, now()).status());
  }

  void Set(const FuzzCall& call) {
    SetRequest right;
    right.set_job("latest");
    const int value = 1 + (call.flags >> 5);
    right.add_setting(call.flag(1)   ? absl::StrCat("downpour.optimizer.sgd.rate=", value)
                      : call.flag(2) ? absl::StrCat("downpour.local.steps=", value)
                                     : absl::StrCat("downpour.workers=", value));
    if (const auto request = Read(call, right)) {
      CheckAnswer(core_->Set(*request, &JobPlan::Judge, now()).status());
    }
  }

  void Enter(const FuzzCall& call) {
    EnterRequest right;
    right.set_protocol_version(kProtocolVersion);
    right.set_guest(70 + WorkerOf(call));
    right.set_pid(300 + WorkerOf(call));
    CHECK(google::protobuf::TextFormat::ParseFromString(kJoined, right.mutable_job()));
    if (call.flag(2)) {
      right.set_sealed_by(writer_);
    }
    auto request = Read(call, right);
    if (!request.has_value()) {
      return;
    }
    JoinersSource* const joiners = request->mutable_job()->mutable_train()->mutable_joiners();
    joiners->set_examples(std::min(joiners->examples(), kMostExamples));
    const absl::Status known = CheckProgram(*request);
    CheckAnswer(known);
    const absl::StatusOr<JobPlan> plan = JobPlan::Make(request->job(), cluster_);
    CheckAnswer(plan.status());
    if (!plan.ok() || !known.ok()) {
      return;
    }
    const absl::StatusOr<EnterReply> reply = core_->Enter(*request, *plan, now());
    CheckAnswer(reply.status());
    if (reply.ok()) {
      writer_ = reply->writer();
      entered_ = {reply->job(), reply->job_term()};
    }
  }

  void Beat(const FuzzCall& call) {
    const uint32_t number = WorkerOf(call);
    FuzzedWorker& worker = workers_[number];
    HeartbeatRequest right;
    right.set_protocol_version(kProtocolVersion);
    right.set_cluster("c");
    right.set_task(number);
    right.set_incarnation(worker.incarnation);
    right.set_term(worker.term);
    right.set_pid(200 + number);
    if (call.flag(2)) {
      *right.mutable_session() = worker.session;
    }
    if (call.flag(3)) {
      right.set_guest(70 + number);
      right.set_enters_job(entered_.first);
      right.set_enters_job_term(entered_.second);
    }
    const auto request = Read(call, right);
    if (!request.has_value()) {
      return;
    }
    const absl::StatusOr<HeartbeatReply> reply = core_->Heartbeat(*request, now());
    CheckAnswer(reply.status());
    if (!reply.ok() || !call.flag(0)) {
      return;
    }
    worker.incarnation = reply->rejoin() ? 0 : reply->incarnation();
    worker.term = reply->term();
    const SessionKey& session = reply->assignment().session();
    if (reply->has_assignment() &&
        session.SerializeAsString() != worker.session.SerializeAsString()) {
      worker.session = session;
      worker.request = 0;
      worker.told.Clear();
    }
  }

  void Ask(const FuzzCall& call) {
    FuzzedWorker& worker = workers_[WorkerOf(call)];
    NextWorkRequest right;
    *right.mutable_session() = worker.session;
    right.set_request(worker.request + 1);
    *right.mutable_done() = worker.told.train().block();
    for (const NextWorkReply::Contribution& each : worker.told.contribute().contribution()) {
      ContributionResult* const result = right.add_contribution();
      result->set_evaluation(worker.told.contribute().evaluation());
      result->set_contribution(each.contribution());
      result->set_examples(each.examples());
      result->set_finite(true);
    }
    const auto request = Read(call, right);
    if (!request.has_value()) {
      return;
    }
    const absl::StatusOr<NextWorkReply> reply = core_->NextWork(*request, now());
    CheckAnswer(reply.status());
    if (reply.ok() && call.flag(0)) {
      worker.request = request->request();
      worker.told = *reply;
    }
  }

  // ---- shards ----

  // With the message in one shard's answer.
  void Poll(const FuzzCall& call) {
    const uint64_t round = core_->BeginPoll();
    for (uint32_t i = 0; i < kShards; ++i) {
      absl::StatusOr<ShardStatusReply> reply = shards_.StatusOf(i);
      if (reply.ok() && i == WorkerOf(call)) {
        if (const auto changed = Read(call, *reply)) {
          reply = *changed;
        }
      }
      core_->OnPoll(i, round, reply, now());
    }
  }

  void Settle() {
    constexpr int kRounds = 20;
    for (int i = 0; i < kRounds; ++i) {
      const std::vector<ShardCommand> commands = core_->TakeCommands(now());
      if (commands.empty()) {
        break;
      }
      for (const ShardCommand& command : commands) {
        if (observer_.on_command) {
          observer_.on_command(command);
        }
        core_->OnCommand(command, shards_.Execute(command), now());
      }
    }
    core_->TakeLog();
  }

  void Pass(const FuzzCall& call) {
    // 0.1 to 25.6 s.
    now_ += absl::Milliseconds(100) * (1 + call.flags);
    core_->Tick(now());
  }

  // ---- the minimiser ----

  void Minimise(const FuzzCall& call) {
    if (!batch_.has_value()) {
      batch_ = core_->TakeBatch();
      evaluates_ = false;
      return;
    }
    const BatchKey key = batch_->batch;
    switch (call.flags & 3) {
      case 0:
      case 1:
        if (!evaluates_) {
          const bool probe = (call.flags & 1) != 0;
          evaluates_ = core_->batches().StartEvaluation(key, ++evaluation_, "w", probe, now()).ok();
        } else {
          const auto result = core_->batches().FinishedEvaluation(key);
          evaluates_ = result.ok() && !result->has_value();
        }
        return;
      case 2:
        if (!core_->batches().Waits(key)) {
          JobDescription::Iteration iteration;
          iteration.set_iteration(++iteration_);
          core_->batches()
              .NoteIteration(
                  key, iteration, BatchFigures(), [] { return MinimizerState(); }, now())
              .status()
              .IgnoreError();
        }
        return;
      default:
        core_->EndBatch(key,
                        call.flag(2) ? absl::StatusOr<BatchEnd>(BatchEnd{"converged", ""})
                                     : absl::AbortedError("a shard was started anew"),
                        now());
        batch_.reset();
        return;
    }
  }

  // With all that something rests on; what may lag is lost.
  void RestartCoordinator() {
    while (!updates_.empty() && MayLag(updates_.back())) {
      updates_.pop_back();
    }
    CoordinatorState state;
    for (const StateUpdate& update : updates_) {
      CHECK_OK(state.Apply(update));
    }
    batch_.reset();
    core_ = std::make_unique<CoordinatorCore>(
        cluster_, ++pid_, now(),
        [this](const StateUpdate& update) {
          updates_.push_back(update);
          if (observer_.on_update) {
            observer_.on_update(update);
          }
        },
        std::move(state));
  }

  const Observer observer_;
  const Cluster cluster_ = MakeCluster();
  absl::Duration now_ = absl::Seconds(1000);
  uint32_t pid_ = 0;
  FuzzedShards shards_;
  std::vector<StateUpdate> updates_;
  std::unique_ptr<CoordinatorCore> core_;
  FuzzedWorker workers_[kWorkers];
  uint64_t writer_ = 0;                       // as which a program writes
  std::pair<std::string, uint64_t> entered_;  // the job that programs entered last
  std::optional<BatchTask> batch_;
  bool evaluates_ = false;
  uint64_t evaluation_ = 0;
  uint32_t iteration_ = 0;
};

}  // namespace monsoon::testing
