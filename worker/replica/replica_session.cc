#include "worker/replica/replica_session.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

constexpr absl::Duration kWaitSlice = absl::Seconds(1);
constexpr absl::Duration kReportPause = absl::Milliseconds(100);
// A worker that leaves stays so long until its pushes are durable.
constexpr absl::Duration kDurablePatience = absl::Seconds(10);
// Shards that go on writing generations may be told of so often.
constexpr int kTellDurable = 5;

}  // namespace

ReplicaSession::ReplicaSession(Parts parts)
    : parts_(std::move(parts)),
      source_(parts_.coordinator, parts_.session, parts_.stats, parts_.control) {}

SessionEnd ReplicaSession::Run() {
  while (true) {
    switch (parts_.control->AwaitGo()) {
      case SessionControl::State::kStop:
        return {SessionEnd::Kind::kStopped, {}, "the coordinator ended the session"};
      case SessionControl::State::kDrain:
        return Drain();
      case SessionControl::State::kRunning:
        break;
    }
    if (Current() != nullptr) {
      if (absl::Status status = ComputeOneStep(); !status.ok()) {
        return EndAfter(status);
      }
      continue;
    }
    if (absl::Status status = BeforeQuestion(); !status.ok()) {
      return EndAfter(status);
    }
    Reply reply = AwaitWork();
    if (!reply.ok()) {
      if (parts_.control->state() == SessionControl::State::kRunning) {
        return Classify(reply.status());
      }
      continue;  // drained or stopped while it asked
    }
    const absl::StatusOr<bool> goes_on = Act(*reply);
    if (!goes_on.ok()) {
      return EndAfter(goes_on.status());
    }
    if (!*goes_on) {
      return {SessionEnd::Kind::kFinished, {}, {}};
    }
  }
}

SessionWork* ReplicaSession::Current() const {
  for (SessionWork* const work : parts_.work) {
    if (work->left()) {
      return work;
    }
  }
  return nullptr;
}

absl::Status ReplicaSession::ComputeOneStep() {
  RETURN_IF_ERROR(AskAhead());
  SessionWork* const work = Current();
  return work == nullptr ? absl::OkStatus() : work->Step();  // an answer may have ended it
}

// ---- asking ----------------------------------------------------------------

void ReplicaSession::NoMoreSamples() {
  source_.NoMoreSamples();
  flush_ = true;
}

void ReplicaSession::EndJob() { flush_ |= !std::exchange(ends_job_, true); }

absl::Status ReplicaSession::BeforeQuestion() {
  if (parts_.listen) {
    RETURN_IF_ERROR(parts_.listen());
  }
  if (std::exchange(flush_, false)) {
    RETURN_IF_ERROR(Flush());
  }
  if (ends_job_) {
    source_.EndJob();  // now that all it has pushed is there
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ReplicaSession::Poll() {
  RETURN_IF_ERROR(AskAhead());
  return asker_.busy();
}

absl::Status ReplicaSession::AskAhead() {
  if (held_.has_value()) {
    return absl::OkStatus();
  }
  if (std::optional<Reply> reply = asker_.TryTake()) {
    RETURN_IF_ERROR(TakeAhead(*std::move(reply)));
  }
  const SessionWork* const work = Current();
  if (!held_.has_value() && !asker_.busy() && work != nullptr && work->WantsMore()) {
    asker_.Start([this, done = TakeDone()] { return Ask(done); });
  }
  return absl::OkStatus();
}

absl::Status ReplicaSession::TakeAhead(Reply reply) {
  if (reply.ok() && (reply->has_train() || reply->has_contribute() || reply->has_synchronize())) {
    return Act(*reply).status();
  }
  bool taken = false;
  for (SessionWork* const work : parts_.work) {
    taken = (reply.ok() && work->left() && work->Take(*reply)) || taken;
  }
  if (!taken) {
    held_ = std::move(reply);
  }
  return absl::OkStatus();
}

FinishedWork ReplicaSession::TakeDone() {
  FinishedWork done;
  for (SessionWork* const work : parts_.work) {
    work->TakeDone(&done);
  }
  return done;
}

ReplicaSession::Reply ReplicaSession::Ask(FinishedWork done) {
  if (!done.parts.empty()) {
    MONSOON_FAIL_POINT("worker.before_report");
  }
  for (SessionWork* const work : parts_.work) {
    RETURN_IF_ERROR(work->AwaitDone(&done));
  }
  if (!done.contributions.empty()) {
    MONSOON_FAIL_POINT("contribution.before_report");
  }
  return source_.Next(std::move(done));
}

ReplicaSession::Reply ReplicaSession::AwaitWork() {
  if (held_.has_value()) {
    return *std::exchange(held_, std::nullopt);
  }
  if (!asker_.busy()) {
    return Ask(TakeDone());
  }
  while (true) {
    if (std::optional<Reply> reply = asker_.WaitTake(kWaitSlice)) {
      return *std::move(reply);
    }
  }
}

// ---- acting ----------------------------------------------------------------

absl::StatusOr<bool> ReplicaSession::Act(const NextWorkReply& reply) {
  switch (reply.work_case()) {
    case NextWorkReply::kTrain:
    case NextWorkReply::kContribute:
    case NextWorkReply::kSynchronize:
      RETURN_IF_ERROR(Append(reply));
      return true;
    case NextWorkReply::kWait:
      RETURN_IF_ERROR(Idle());
      Wait(WaitOf(reply));
      return true;
    case NextWorkReply::kFlush:
      RETURN_IF_ERROR(Flush());
      return true;
    case NextWorkReply::kEvaluate:
      RETURN_IF_ERROR(Idle());
      RETURN_IF_ERROR(EvaluateAndReport(reply.evaluate()));
      return true;
    case NextWorkReply::kFinish:
      RETURN_IF_ERROR(Flush());
      AwaitDurable();
      return false;
    case NextWorkReply::WORK_NOT_SET:
      break;
  }
  return absl::InternalError("the coordinator's answer names no work");
}

absl::Status ReplicaSession::Append(const NextWorkReply& reply) {
  for (SessionWork* const work : parts_.work) {
    if (work->lease() == reply.work_case()) {
      return work->Append(reply);
    }
  }
  return absl::InternalError(
      reply.has_train()        ? "the coordinator leased blocks of a job without downpour"
      : reply.has_contribute() ? "the coordinator leased contributions of a job without sandblaster"
                               : "the coordinator leased steps of a job without synchronous");
}

void ReplicaSession::Wait(absl::Duration pause) {
  // A result that became ready since the question is reported at once.
  if (std::ranges::none_of(parts_.work, [](SessionWork* work) { return work->unreported(); })) {
    parts_.control->Sleep(pause);
  }
}

absl::Status ReplicaSession::Idle() {
  for (SessionWork* const work : parts_.work) {
    RETURN_IF_ERROR(work->Idle());
  }
  return absl::OkStatus();
}

absl::Status ReplicaSession::Flush() {
  for (SessionWork* const work : parts_.work) {
    RETURN_IF_ERROR(work->Flush());
  }
  return absl::OkStatus();
}

void ReplicaSession::AwaitDurable() {
  // Of the last phase alone: a batch has written over what was pushed before it. The
  // coordinator has ordered it, and keeps the session until then.
  absl::Status status = absl::DeadlineExceededError("");
  while (absl::IsDeadlineExceeded(status) &&
         parts_.control->state() == SessionControl::State::kRunning) {
    status = TellDurable(parts_.work.back(), kWaitSlice);
  }
}

// A state folder may be put in place of a shard's until the coordinator knows what the shard has
// to have, and this session can send its pushes again as long as it looks: so it looks once more
// after the coordinator has heard.
absl::Status ReplicaSession::TellDurable(SessionWork* work, absl::Duration patience) {
  ASSIGN_OR_RETURN(std::vector<uint64_t> generations, work->AwaitDurable(patience));
  for (int i = 0; i < kTellDurable && !generations.empty(); ++i) {
    FinishedWork done;
    done.durable_in = generations;
    done.pushes = work->pushes();
    RETURN_IF_ERROR(source_.ReportLast(std::move(done), kDurablePatience));
    ASSIGN_OR_RETURN(std::vector<uint64_t> now, work->AwaitDurable(kDurablePatience));
    if (now == generations) {
      break;
    }
    generations = std::move(now);
  }
  return absl::OkStatus();
}

absl::Status ReplicaSession::EvaluateAndReport(const NextWorkReply::Evaluate& work) {
  for (SessionWork* const lender : parts_.work) {
    RETURN_IF_ERROR(lender->Lend());
  }
  absl::StatusOr<EvaluationResult> result = parts_.evaluate(work.vector());
  for (SessionWork* const lender : parts_.work) {
    lender->TakeBack();
  }
  ReportEvaluationRequest request;
  *request.mutable_session() = parts_.session;
  request.set_evaluation(work.evaluation());
  // A shard that was started anew, or a slice that was, has no vectors.
  request.set_vector_is_gone(!work.vector().empty() && absl::IsNotFound(result.status()));
  if (!request.vector_is_gone()) {
    RETURN_IF_ERROR(result.status());
    request.set_examples(result->examples);
    request.set_loss_sum(result->loss_sum);
    request.set_correct(result->correct);
    for (const auto& [name, value] : result->metrics) {
      Metric* const metric = request.add_metric();
      metric->set_name(name);
      metric->set_value(value);
    }
  }
  while (true) {
    const absl::Status status = parts_.coordinator->ReportEvaluation(request).status();
    if (status.ok()) {
      return absl::OkStatus();
    }
    if (!IsTransient(status)) {
      // Another replica has the evaluation by now; it is not ours to report.
      LOG(WARNING) << "evaluation " << work.evaluation()
                   << " was not taken: " << std::string(status.message());
      return absl::OkStatus();
    }
    if (parts_.control->Sleep(kReportPause) == SessionControl::State::kStop) {
      return absl::CancelledError("session ends while reporting an evaluation");
    }
  }
}

// ---- ending ----------------------------------------------------------------

SessionEnd ReplicaSession::EndAfter(const absl::Status& status) {
  // A network that can be told to leave gives up what it was at.
  const bool gives_up =
      absl::IsCancelled(status) && parts_.control->state() == SessionControl::State::kDrain;
  if (gives_up) {
    return Drain();
  }
  if (IsProgramDivergedError(status)) {
    // What the shards have of it counts, and what of it was refused goes to others.
    absl::Status told;
    for (SessionWork* const work : parts_.work) {
      told.Update(work->Settle());
    }
    told.Update(TellLast());
    if (!told.ok()) {
      LOG(WARNING) << "finished work was not reported: " << std::string(told.message());
    }
  }
  return Classify(status);
}

SessionEnd ReplicaSession::Drain() {
  for (SessionWork* const work : parts_.work) {
    if (absl::Status status = work->Finish(); !status.ok()) {
      return Classify(status);
    }
  }
  if (absl::Status status = TellLast(); !status.ok()) {
    return Classify(status);
  }
  return {SessionEnd::Kind::kDrained, {}, {}};
}

absl::Status ReplicaSession::TellLast() {
  if (asker_.busy()) {
    AwaitWork().IgnoreError();  // the work it brings goes back when the worker leaves
  }
  FinishedWork done = TakeDone();
  for (SessionWork* const work : parts_.work) {
    RETURN_IF_ERROR(work->AwaitDone(&done));
  }
  if (!done.empty()) {
    if (absl::Status status = source_.ReportLast(std::move(done)); !status.ok()) {
      LOG(WARNING) << "finished work was not reported: " << std::string(status.message());
    }
  }
  // Nobody could send what was pushed again to a shard that dies.
  for (SessionWork* const work : parts_.work) {
    if (absl::Status status = TellDurable(work, kDurablePatience); !status.ok()) {
      LOG(WARNING) << "leaves before its pushes are durable: " << std::string(status.message());
    }
  }
  return absl::OkStatus();
}

SessionEnd ReplicaSession::Classify(const absl::Status& status) const {
  const std::string message(status.message());
  if (IsDivergedError(status)) {
    return {SessionEnd::Kind::kFailed, ReportFailureRequest::DIVERGED, message};
  }
  if (parts_.control->state() == SessionControl::State::kStop) {
    return {SessionEnd::Kind::kStopped, {}, message};
  }
  if (IsProgramDivergedError(status)) {
    return {SessionEnd::Kind::kFailed, ReportFailureRequest::PROGRAM_DIVERGED, message};
  }
  if (IsDeviceError(status)) {
    return {SessionEnd::Kind::kDeviceLost, ReportFailureRequest::REPLICA, message};
  }
  if (IsSessionLost(status) || absl::IsFailedPrecondition(status)) {
    return {SessionEnd::Kind::kLost, {}, message};
  }
  if (absl::IsDataLoss(status)) {
    return {SessionEnd::Kind::kFailed, ReportFailureRequest::DATA, message};
  }
  if (absl::IsInvalidArgument(status)) {
    return {SessionEnd::Kind::kFailed, ReportFailureRequest::JOB, message};
  }
  return {SessionEnd::Kind::kFailed, ReportFailureRequest::REPLICA, message};
}

}  // namespace monsoon
