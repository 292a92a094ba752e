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

// Steps between two log lines.
constexpr uint64_t kLogSteps = 100;
constexpr absl::Duration kWaitSlice = absl::Seconds(1);
constexpr absl::Duration kReportPause = absl::Milliseconds(100);
// A worker that leaves stays so long until its pushes are durable.
constexpr absl::Duration kDurablePatience = absl::Seconds(10);
// What the coordinator asks for when it says nothing.
constexpr uint32_t kDefaultRetryMs = 50;

}  // namespace

ReplicaSession::ReplicaSession(Parts parts)
    : parts_(std::move(parts)),
      source_(parts_.coordinator, parts_.session, parts_.stats, parts_.control),
      logged_at_(parts_.clock->Now()) {}

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
    if (training() || contributing()) {
      if (absl::Status status = ComputeOneStep(); !status.ok()) {
        return EndAfter(status);
      }
      continue;
    }
    if (std::exchange(flush_, false)) {
      if (absl::Status status = FlushTraining(); !status.ok()) {
        return Classify(status);
      }
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

absl::Status ReplicaSession::ComputeOneStep() {
  RETURN_IF_ERROR(AskAhead());
  return training() ? TrainOneStep() : parts_.contributions->Step();
}

absl::Status ReplicaSession::TrainOneStep() {
  while (parts_.downpour->room() > 0 && parts_.reader->blocks_left() > 0) {
    absl::StatusOr<BlockReader::Piece> piece = parts_.reader->Next();
    if (!piece.ok()) {
      return absl::DataLossError(absl::StrCat("reading training data: ", piece.status().message()));
    }
    parts_.downpour->Add(piece->batch, piece->last_of);
  }
  ASSIGN_OR_RETURN(const StepResult result, parts_.downpour->Step());
  LogProgress(result);
  return absl::OkStatus();
}

void ReplicaSession::LogProgress(const StepResult& result) {
  const uint64_t steps = parts_.downpour->steps();
  if (steps / kLogSteps == logged_steps_ / kLogSteps) {
    return;
  }
  const absl::Duration now = parts_.clock->Now();
  const double mean_ms =
      absl::ToDoubleMilliseconds(now - logged_at_) / static_cast<double>(steps - logged_steps_);
  const auto known = [](std::optional<double> value) { return value ? absl::StrCat(*value) : "-"; };
  LOG(INFO) << "Worker " << parts_.session.worker() << ", At step " << steps << ", Cost: "
            << known(result.has_loss ? std::optional<double>(result.loss_mean) : std::nullopt)
            << ", Accuracy: " << known(result.accuracy()) << ", AvgTime: " << mean_ms << " ms";
  logged_steps_ = steps;
  logged_at_ = now;
}

// ---- asking ----------------------------------------------------------------

void ReplicaSession::NoMoreSamples() {
  source_.NoMoreSamples();
  flush_ = true;
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
  if (!held_.has_value() && !asker_.busy() && WantsMore()) {
    asker_.Start([this, blocks = TakeBlocks()] { return Ask(blocks); });
  }
  return absl::OkStatus();
}

absl::Status ReplicaSession::TakeAhead(Reply reply) {
  if (reply.ok() && (reply->has_train() || reply->has_contribute())) {
    return Act(*reply).status();
  }
  if (reply.ok() && reply->has_wait() && contributing()) {
    Wait(reply->wait().retry_ms());
    return absl::OkStatus();
  }
  if (reply.ok() && contributing()) {
    // The batch was completed by copies elsewhere: what is left is of no use.
    parts_.contributions->Abandon();
  }
  held_ = std::move(reply);
  return absl::OkStatus();
}

bool ReplicaSession::WantsMore() const {
  if (training()) {
    return parts_.overlap == ASYNC && parts_.reader->wants_more(parts_.downpour->room());
  }
  return contributing() &&
         (parts_.contributions->unreported() ||
          (parts_.contributions->wants_more() && parts_.clock->Now() >= ask_after_));
}

std::vector<BlockId> ReplicaSession::TakeBlocks() {
  return parts_.downpour == nullptr ? std::vector<BlockId>() : parts_.downpour->TakeDone();
}

ReplicaSession::Reply ReplicaSession::Ask(std::vector<BlockId> blocks) {
  FinishedWork done{std::move(blocks), {}};
  if (!done.blocks.empty()) {
    MONSOON_FAIL_POINT("worker.before_report");
  }
  if (parts_.contributions != nullptr) {
    RETURN_IF_ERROR(parts_.contributions->AwaitSent());
    done.contributions = parts_.contributions->TakeResults();
    if (!done.contributions.empty()) {
      MONSOON_FAIL_POINT("contribution.before_report");
    }
  }
  return source_.Next(std::move(done));
}

ReplicaSession::Reply ReplicaSession::AwaitWork() {
  if (held_.has_value()) {
    return *std::exchange(held_, std::nullopt);
  }
  if (!asker_.busy()) {
    return Ask(TakeBlocks());
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
      RETURN_IF_ERROR(Train(reply.train()));
      return true;
    case NextWorkReply::kContribute:
      RETURN_IF_ERROR(Contribute(reply.contribute()));
      return true;
    case NextWorkReply::kWait:
      RETURN_IF_ERROR(Idle());
      Wait(reply.wait().retry_ms());
      return true;
    case NextWorkReply::kFlush:
      RETURN_IF_ERROR(FlushTraining());
      return true;
    case NextWorkReply::kEvaluate:
      RETURN_IF_ERROR(Idle());
      RETURN_IF_ERROR(EvaluateAndReport(reply.evaluate()));
      return true;
    case NextWorkReply::kFinish:
      RETURN_IF_ERROR(FlushTraining());
      AwaitDurable();
      return false;
    case NextWorkReply::WORK_NOT_SET:
      break;
  }
  return absl::InternalError("the coordinator's answer names no work");
}

absl::Status ReplicaSession::Train(const NextWorkReply::Train& work) {
  if (parts_.reader == nullptr) {
    return absl::InternalError("the coordinator leased blocks of a job without downpour");
  }
  for (const BlockId& block : work.block()) {
    LOG(DEBUG) << "block " << block.block() << " of epoch " << block.epoch();
    RETURN_IF_ERROR(parts_.reader->Append(block));
  }
  return absl::OkStatus();
}

absl::Status ReplicaSession::Contribute(const NextWorkReply::Contribute& work) {
  if (parts_.contributions == nullptr) {
    return absl::InternalError("the coordinator leased contributions of a job without sandblaster");
  }
  ask_after_ = absl::ZeroDuration();
  return parts_.contributions->Append(work);
}

void ReplicaSession::Wait(uint32_t retry_ms) {
  const absl::Duration pause = absl::Milliseconds(retry_ms > 0 ? retry_ms : kDefaultRetryMs);
  if (contributing()) {
    ask_after_ = parts_.clock->Now() + pause;
  } else if (parts_.contributions == nullptr || !parts_.contributions->unreported()) {
    parts_.control->Sleep(pause);
  }  // else a result became ready since the question: it is reported at once
}

absl::Status ReplicaSession::Idle() {
  return parts_.downpour == nullptr ? absl::OkStatus() : parts_.downpour->Idle();
}

absl::Status ReplicaSession::FlushTraining() {
  return parts_.downpour == nullptr ? absl::OkStatus() : parts_.downpour->Flush();
}

void ReplicaSession::AwaitDurable() {
  // A batch has written over what was pushed before it.
  if (parts_.downpour == nullptr || parts_.contributions != nullptr) {
    return;
  }
  // The coordinator has ordered it, and keeps the session until then.
  absl::Status status = absl::DeadlineExceededError("");
  while (absl::IsDeadlineExceeded(status) &&
         parts_.control->state() == SessionControl::State::kRunning) {
    status = parts_.downpour->AwaitDurable(kWaitSlice);
  }
}

absl::Status ReplicaSession::EvaluateAndReport(const NextWorkReply::Evaluate& work) {
  if (parts_.downpour != nullptr) {
    RETURN_IF_ERROR(parts_.downpour->BringParameters());
  }
  absl::StatusOr<EvaluationResult> result = parts_.evaluate(work.vector());
  if (parts_.downpour != nullptr) {
    parts_.downpour->RestoreParameters();
  }
  if (parts_.contributions != nullptr) {
    parts_.contributions->RestoreParameters();
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

absl::Status ReplicaSession::FinishWork() {
  RETURN_IF_ERROR(FlushTraining());
  return parts_.contributions == nullptr ? absl::OkStatus() : parts_.contributions->FinishCurrent();
}

SessionEnd ReplicaSession::EndAfter(const absl::Status& status) {
  // A network that can be told to leave gives up what it was at.
  const bool gives_up =
      absl::IsCancelled(status) && parts_.control->state() == SessionControl::State::kDrain;
  return gives_up ? Drain() : Classify(status);
}

SessionEnd ReplicaSession::Drain() {
  if (absl::Status status = FinishWork(); !status.ok()) {
    return Classify(status);
  }
  if (asker_.busy()) {
    AwaitWork().IgnoreError();  // the work it brings goes back when the worker leaves
  }
  FinishedWork done{TakeBlocks(), {}};
  if (parts_.contributions != nullptr) {
    done.contributions = parts_.contributions->TakeResults();
  }
  if (!done.empty()) {
    if (absl::Status status = source_.ReportLast(std::move(done)); !status.ok()) {
      LOG(WARNING) << "finished work was not reported: " << std::string(status.message());
    }
  }
  if (parts_.downpour != nullptr) {
    // Nobody could send them again to a shard that dies.
    if (absl::Status status = parts_.downpour->AwaitDurable(kDurablePatience); !status.ok()) {
      LOG(WARNING) << "leaves before its pushes are durable: " << std::string(status.message());
    }
  }
  return {SessionEnd::Kind::kDrained, {}, {}};
}

SessionEnd ReplicaSession::Classify(const absl::Status& status) const {
  const std::string message(status.message());
  if (IsDivergedError(status)) {
    return {SessionEnd::Kind::kFailed, ReportFailureRequest::DIVERGED, message};
  }
  if (parts_.control->state() == SessionControl::State::kStop) {
    return {SessionEnd::Kind::kStopped, {}, message};
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
