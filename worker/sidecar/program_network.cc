#include "worker/sidecar/program_network.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"
#include "worker/session/session_status.h"
#include "worker/sidecar/program_rows.h"
#include "worker/sidecar/program_streams.h"

namespace monsoon {
namespace {

// One look at the program; a session that is to end waits for it at most.
constexpr absl::Duration kLook = absl::Milliseconds(100);
// Who watches the program tells the session to leave, within moments of its end.
constexpr absl::Duration kLeavePatience = absl::Seconds(5);
// While the program waits for batches that the coordinator is asked for.
constexpr absl::Duration kLookForWork = absl::Microseconds(500);

// Comes between two other calls, and is answered by what it asks for.
bool IsQuestion(const Message& call) {
  return call.kind == MessageKind::kFetchRows || call.kind == MessageKind::kTakeStream;
}

}  // namespace

void ProgramNetwork::SetParameters(std::span<const float> parameters) {
  parameters_ = parameters;
  changed_ = true;
}

void ProgramNetwork::CopyParameters() {
  if (parameters_.empty() || parameters_.data() == taken_.data()) {
    return;
  }
  // Only the answer to a step tells the program of others.
  if (!heard_ && program_->call() != nullptr && program_->call()->kind == MessageKind::kStep) {
    program_->SetParameters(std::exchange(parameters_, {}));
  } else {
    taken_.assign(parameters_.begin(), parameters_.end());
    parameters_ = taken_;
  }
}

absl::StatusOr<const Message*> ProgramNetwork::AwaitCall() {
  while (true) {
    if (control_->state() != SessionControl::State::kRunning) {
      return absl::CancelledError("the session ends while the program computes");
    }
    absl::StatusOr<const Message*> call = program_->AwaitCall(kLook);
    if (absl::IsCancelled(call.status())) {
      return AwaitDrain(call.status());
    }
    if (call.ok() && downpour_ != nullptr) {
      RETURN_IF_ERROR(downpour_->Advance());
    }
    if (call.ok() && *call != nullptr && IsQuestion(**call)) {
      RETURN_IF_ERROR(AnswerQuestion(**call));
      continue;
    }
    if (!call.ok() || *call != nullptr) {
      return call;
    }
  }
}

absl::Status ProgramNetwork::AnswerQuestion(const Message& call) {
  if (call.kind == MessageKind::kTakeStream) {
    return AnswerStream(call, program_,
                        [this](const std::string& stream) { return take_stream_(stream); });
  }
  return monsoon::AnswerRows(call, tables_, program_, [this](std::span<const RowRequest> wanted) {
    return downpour_->FetchRows(wanted);
  });
}

absl::Status ProgramNetwork::AwaitDrain(const absl::Status& why) {
  // A session that ends in any other way does not wait until its pushes are durable. It may have
  // been told before: a wait begins only where it was not.
  for (absl::Duration waited;
       waited < kLeavePatience && control_->state() == SessionControl::State::kRunning;
       waited += kLook) {
    control_->Sleep(kLook);
  }
  return why;
}

void ProgramNetwork::AnswerGo(const std::string& batches) {
  if (!parameters_.empty()) {
    program_->SetParameters(std::exchange(parameters_, {}));
  }
  program_->Answer(MONSOON_GO, std::exchange(changed_, false), batches);
}

absl::Status ProgramNetwork::AnswerDraw() {
  while (true) {
    if (std::string drawn = batches_->Draw(); !drawn.empty()) {
      program_->Answer(MONSOON_GO, /*parameters_changed=*/false, drawn);
      return session_->Poll().status();  // the next ones are asked for while these are used
    }
    ASSIGN_OR_RETURN(const bool asked, session_->Poll());
    if (asked) {
      control_->Sleep(kLookForWork);
    } else if (batches_->wants_more(0)) {
      program_->Answer(MONSOON_NOTHING_NOW);
      return absl::OkStatus();
    }
    if (control_->state() != SessionControl::State::kRunning || program_->leaving()) {
      return AwaitDrain(absl::CancelledError("the session ends while batches are drawn"));
    }
  }
}

absl::Status ProgramNetwork::AnswerLastStep() {
  const std::string drawn = batches_->outstanding() == 0 ? batches_->Draw() : "";
  AnswerGo(drawn);
  return drawn.empty() ? absl::OkStatus() : session_->Poll().status();
}

absl::StatusOr<std::vector<TensorSlice>> ProgramNetwork::ReadAbsent(FieldReader* fields) const {
  const auto count = fields->Number<uint32_t>();
  std::vector<TensorSlice> absent;
  for (uint32_t i = 0; i < count && !fields->broken(); ++i) {
    const auto number = fields->Number<uint32_t>();
    if (number >= tensors_.size() || (!absent.empty() && number <= absent.back().number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the program's step has no gradient of tensor ", number, " of ",
                       tensors_.size(), ", or names it twice"));
    }
    absent.push_back(tensors_[number]);
  }
  return absent;
}

absl::StatusOr<StepResult> ProgramNetwork::TakeStep(const Message& call,
                                                    std::span<float> gradient) {
  FieldReader fields(call.fields);
  const auto batches = fields.Number<uint32_t>();
  StepResult result;
  result.steps = fields.Number<uint64_t>();
  result.examples = fields.Number<uint64_t>();
  const auto judged = fields.Number<uint64_t>();
  result.unjudged = result.examples - std::min(judged, result.examples);
  result.correct = fields.Number<uint64_t>();
  result.has_loss = fields.Number<uint8_t>() != 0;
  result.loss_mean = fields.Number<double>();
  result.computing = computing_;
  RowSums rows;
  RETURN_IF_ERROR(ReadRows(&fields, tables_, &rows));
  ASSIGN_OR_RETURN(result.absent, ReadAbsent(&fields));
  std::vector<StreamPosition> positions = ReadPositions(&fields);
  if (!fields.ok()) {
    return absl::InvalidArgumentError("the program's step is malformed");
  }
  downpour_->AddRows(rows);
  ASSIGN_OR_RETURN(const std::vector<BlockId> ended, batches_->Count(batches));
  for (const BlockId& block : ended) {
    downpour_->FinishPart(block);
  }
  for (StreamPosition& position : positions) {
    downpour_->FinishPart(std::move(position));
  }
  std::ranges::copy(program_->memory().gradient(), gradient.begin());
  const size_t in_a_float = program_->memory().values_in_a_float();
  for (const TensorSlice& tensor : result.absent) {
    // A tensor of BFLOAT16 may end within a float, whose other half is padding.
    std::ranges::fill(gradient.subspan(tensor.floats.begin / in_a_float,
                                       (tensor.floats.size() + in_a_float - 1) / in_a_float),
                      0.0f);
  }
  program_->memory().flags().gradients_taken.fetch_add(1, std::memory_order_release);
  return result;
}

absl::StatusOr<StepResult> ProgramNetwork::TakeEndOfSamples(const Message& call,
                                                            std::span<float> gradient) {
  ASSIGN_OR_RETURN(const StepResult result, TakeStep(call, gradient));
  for (const BlockId& block : batches_->CountAll()) {
    downpour_->FinishPart(block);
  }
  session_->NoMoreSamples();
  return result;
}

absl::StatusOr<StepResult> ProgramNetwork::TakeFinish(const Message& call,
                                                      std::span<float> gradient) {
  ASSIGN_OR_RETURN(const StepResult result, TakeStep(call, gradient));
  EndJob();
  return result;
}

void ProgramNetwork::EndJob() {
  batches_->Close();
  session_->EndJob();
}

absl::Status ProgramNetwork::Listen() {
  const bool is_new = program_->call() == nullptr;
  const absl::StatusOr<const Message*> call = program_->AwaitCall(absl::ZeroDuration());
  if (!call.ok()) {
    // Who watches the program tells the session that it is gone.
    return absl::IsCancelled(call.status()) ? absl::OkStatus() : call.status();
  }
  if (*call == nullptr) {
    return absl::OkStatus();
  }
  heard_ |= is_new;
  if ((*call)->kind == MessageKind::kFinish) {
    EndJob();
  } else if ((*call)->kind == MessageKind::kDiverged) {
    return ProgramDivergedError(FieldReader((*call)->fields).String());
  }
  return absl::OkStatus();
}

absl::StatusOr<StepResult> ProgramNetwork::LossAndGradient(const Batch&, const StepKey&,
                                                           std::span<float> gradient) {
  CHECK_EQ(gradient.size(), program_->memory().gradient().size());
  // Of what was heard while nothing was leased, nothing is done yet.
  const bool heard = std::exchange(heard_, false);
  if (!heard && program_->call() != nullptr && program_->call()->kind != MessageKind::kDraw &&
      !IsQuestion(*program_->call())) {
    RETURN_IF_ERROR(AnswerLastStep());
  }
  computing_ = absl::ZeroDuration();
  while (true) {
    const absl::Duration answered = clock_->Now();
    ASSIGN_OR_RETURN(const Message* const call, AwaitCall());
    computing_ += clock_->Now() - answered;
    if (program_->discards()) {
      // Whatever it was about, was of a session that is over. With the batches of the new
      // one come its parameters.
      computing_ = absl::ZeroDuration();
      AnswerGo(call->kind == MessageKind::kDraw ? batches_->Draw() : "");
      continue;
    }
    switch (call->kind) {
      case MessageKind::kDraw:
        RETURN_IF_ERROR(AnswerDraw());
        break;
      case MessageKind::kStep:
        return TakeStep(*call, gradient);
      case MessageKind::kNoMoreSamples:
        return TakeEndOfSamples(*call, gradient);
      case MessageKind::kFinish:
        return TakeFinish(*call, gradient);
      case MessageKind::kDiverged:
        return ProgramDivergedError(FieldReader(call->fields).String());
      default:
        return absl::InvalidArgumentError(absl::StrCat("the program's call ",
                                                       static_cast<uint32_t>(call->kind),
                                                       " has no place within a step"));
    }
  }
}

absl::StatusOr<EvaluationResult> ProgramNetwork::Evaluate(const Batch&) {
  return absl::UnimplementedError("only the program can evaluate its model");
}

absl::StatusOr<EvaluationResult> ProgramNetwork::AskToEvaluate() {
  ASSIGN_OR_RETURN(const Message* call, AwaitCall());
  if (call->kind == MessageKind::kNoMoreSamples) {
    session_->NoMoreSamples();  // perhaps it came while nothing was leased
  } else if (call->kind == MessageKind::kFinish) {
    EndJob();
  }
  heard_ = false;
  program_->Answer(MONSOON_EVALUATE);
  ASSIGN_OR_RETURN(call, AwaitCall());
  if (call->kind != MessageKind::kEvaluated) {
    return absl::InvalidArgumentError("the program goes on without evaluating");
  }
  FieldReader fields(call->fields);
  const std::string failure = fields.String();
  EvaluationResult result;
  const auto metrics = fields.Number<uint32_t>();
  for (uint32_t i = 0; i < metrics && !fields.broken(); ++i) {
    std::string name = fields.String();
    result.metrics.emplace_back(std::move(name), fields.Number<double>());
  }
  if (!fields.ok()) {
    return absl::InvalidArgumentError("the program's evaluation is malformed");
  }
  if (!failure.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the program cannot evaluate: ", failure));
  }
  return result;
}

}  // namespace monsoon
