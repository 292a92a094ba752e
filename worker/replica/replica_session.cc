#include "worker/replica/replica_session.h"

#include <algorithm>
#include <utility>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/replica/session_status.h"

namespace monsoon {
namespace {

// Steps between two log lines.
constexpr uint64_t kLogSteps = 100;
constexpr absl::Duration kWaitSlice = absl::Seconds(1);
constexpr absl::Duration kReportPause = absl::Milliseconds(100);
// What the coordinator asks for when it says nothing.
constexpr uint32_t kDefaultRetryMs = 50;

}  // namespace

ReplicaSession::ReplicaSession(Parts parts)
    : parts_(std::move(parts)),
      source_(parts_.coordinator, parts_.session, parts_.stats, parts_.control),
      logged_at_(parts_.clock->Now()) {
  if (parts_.overlap == ASYNC) {
    asker_ = std::make_unique<BackgroundCall<Reply>>();
  }
}

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
    if (parts_.reader->blocks_left() > 0) {
      if (absl::Status status = TrainOneStep(); !status.ok()) {
        return Classify(status);
      }
      continue;
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
      return Classify(goes_on.status());
    }
    if (!*goes_on) {
      return {SessionEnd::Kind::kFinished, {}, {}};
    }
  }
}

absl::Status ReplicaSession::TrainOneStep() {
  RETURN_IF_ERROR(AskAhead());
  absl::StatusOr<BlockReader::Piece> piece = parts_.reader->Next();
  if (!piece.ok()) {
    return absl::DataLossError(absl::StrCat("reading training data: ", piece.status().message()));
  }
  ASSIGN_OR_RETURN(const StepResult result, parts_.loop->Step(*piece->batch, piece->last_of));
  LogProgress(result);
  return absl::OkStatus();
}

void ReplicaSession::LogProgress(const StepResult& result) {
  const uint64_t steps = parts_.loop->steps();
  if (steps % kLogSteps != 0) {
    return;
  }
  const absl::Duration now = parts_.clock->Now();
  const double mean_ms =
      absl::ToDoubleMilliseconds(now - logged_at_) / static_cast<double>(steps - logged_steps_);
  const double accuracy = result.examples == 0 ? 0.0
                                               : static_cast<double>(result.correct) /
                                                     static_cast<double>(result.examples);
  LOG(INFO) << "Worker " << parts_.session.worker() << ", At step " << steps
            << ", Cost: " << result.loss_mean << ", Accuracy: " << accuracy
            << ", AvgTime: " << mean_ms << " ms";
  logged_steps_ = steps;
  logged_at_ = now;
}

absl::Status ReplicaSession::AskAhead() {
  if (asker_ == nullptr || held_.has_value()) {
    return absl::OkStatus();
  }
  if (std::optional<Reply> reply = asker_->TryTake()) {
    if (!reply->ok() || !(*reply)->has_train()) {
      held_ = std::move(reply);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Act(**reply).status());
  }
  if (!asker_->busy() && parts_.reader->blocks_left() <= 1) {
    asker_->Start([this, done = parts_.loop->TakeDone()] { return source_.Next(done); });
  }
  return absl::OkStatus();
}

ReplicaSession::Reply ReplicaSession::AwaitWork() {
  if (held_.has_value()) {
    return *std::exchange(held_, std::nullopt);
  }
  if (asker_ == nullptr || !asker_->busy()) {
    return source_.Next(parts_.loop->TakeDone());
  }
  while (true) {
    if (std::optional<Reply> reply = asker_->WaitTake(kWaitSlice)) {
      return *std::move(reply);
    }
  }
}

absl::StatusOr<bool> ReplicaSession::Act(const NextWorkReply& reply) {
  switch (reply.work_case()) {
    case NextWorkReply::kTrain:
      for (const BlockId& block : reply.train().block()) {
        LOG(DEBUG) << "block " << block.block() << " of epoch " << block.epoch();
        RETURN_IF_ERROR(parts_.reader->Append(block));
      }
      return true;
    case NextWorkReply::kWait:
      parts_.control->Sleep(absl::Milliseconds(reply.wait().retry_ms() > 0 ? reply.wait().retry_ms()
                                                                           : kDefaultRetryMs));
      return true;
    case NextWorkReply::kFlush:
      RETURN_IF_ERROR(parts_.loop->Flush());
      return true;
    case NextWorkReply::kEvaluate:
      RETURN_IF_ERROR(EvaluateAndReport(reply.evaluate().evaluation()));
      return true;
    case NextWorkReply::kFinish:
      RETURN_IF_ERROR(parts_.loop->Flush());
      return false;
    case NextWorkReply::WORK_NOT_SET:
      break;
  }
  return absl::InternalError("the coordinator's answer names no work");
}

absl::Status ReplicaSession::EvaluateAndReport(uint64_t evaluation) {
  absl::StatusOr<EvaluationResult> result = parts_.evaluate();
  parts_.loop->RestoreParameters();
  RETURN_IF_ERROR(result.status());
  ReportEvaluationRequest request;
  *request.mutable_session() = parts_.session;
  request.set_evaluation(evaluation);
  request.set_examples(result->examples);
  request.set_loss_sum(result->loss_sum);
  request.set_correct(result->correct);
  while (true) {
    const absl::Status status = parts_.coordinator->ReportEvaluation(request).status();
    if (status.ok()) {
      return absl::OkStatus();
    }
    if (!IsTransient(status)) {
      // Another replica has the evaluation by now; it is not ours to report.
      LOG(WARNING) << "evaluation " << evaluation
                   << " was not taken: " << std::string(status.message());
      return absl::OkStatus();
    }
    if (parts_.control->Sleep(kReportPause) == SessionControl::State::kStop) {
      return absl::CancelledError("session ends while reporting an evaluation");
    }
  }
}

SessionEnd ReplicaSession::Drain() {
  if (absl::Status status = parts_.loop->Flush(); !status.ok()) {
    return Classify(status);
  }
  if (asker_ != nullptr && asker_->busy()) {
    AwaitWork().IgnoreError();  // blocks it brings go back when the worker leaves
  }
  std::vector<BlockId> done = parts_.loop->TakeDone();
  if (!done.empty()) {
    if (absl::Status status = source_.ReportLast(std::move(done)); !status.ok()) {
      LOG(WARNING) << "finished blocks were not reported: " << std::string(status.message());
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
