#include "worker/client/replica.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace monsoon {
namespace {

// One that closed its socket is about to end, and its status says why.
constexpr int kEndTimeoutMs = 2000;
// Sidecars that die without a step between: what kills them will not pass.
constexpr uint32_t kMostRestarts = 3;

Result Invalid(std::string message) { return {MONSOON_INVALID_ARGUMENT, std::move(message)}; }

}  // namespace

Replica::Replica(Start start) : owner_(getpid()), start_(std::move(start)) {}

Replica::~Replica() {
  if (vectors_ != nullptr) {
    munmap(vectors_, mapped_bytes_);
  }
  if (memory_ >= 0) {
    close(memory_);
  }
  if (getpid() != owner_) {
    (void)sidecar_.release();  // it is the parent's
  }
}

// ---- the exchange --------------------------------------------------------------

Result Replica::Broken(monsoon_code code, std::string message) {
  broken_ = {code, std::move(message)};
  return broken_;
}

std::string Replica::HowSidecarEnded() {
  const bool ended = sidecar_->AwaitEnd(kEndTimeoutMs);
  std::string how = "the sidecar (pid " + std::to_string(sidecar_->pid()) + ") " +
                    (ended ? sidecar_->HowItEnded() : "closed its socket");
  sidecar_->Kill();  // the memory is its successor's now
  return how;
}

Result Replica::SidecarIsGone() {
  return Broken(MONSOON_UNAVAILABLE,
                HowSidecarEnded() + "; its log says more. Join again to go on");
}

Result Replica::Restart() {
  const std::string how = HowSidecarEnded();
  if (++restarts_ > kMostRestarts) {
    return Broken(MONSOON_UNAVAILABLE,
                  how + ", as did the " + std::to_string(kMostRestarts) +
                      " before it, without a step between. Its log says more, and the kernel's "
                      "(dmesg) if memory ran out. Join again to go on");
  }
  std::string error;
  auto next = SidecarProcess::Start(start_.executable, start_.log_file, &error);
  if (next == nullptr) {
    return Broken(MONSOON_UNAVAILABLE, how + ", and no other can be started: " + error);
  }
  sidecar_ = std::move(next);
  sidecar_->socket().LookBeforeSleep([this] { ZeroTakenGradient(); });
  earlier_sessions_ += std::exchange(figures_.sessions, 0);
  joins_again_ = true;
  restarted_ = true;
  // If this one is gone too, the answer's absence says so.
  (void)sidecar_->socket().Send(MessageKind::kJoin, JoinFields(how), memory_);
  return {};
}

Result Replica::BeginAgain(const Message& joined) {
  joins_again_ = false;
  FieldReader fields(joined.fields);
  if (joined.kind == MessageKind::kError) {
    const monsoon_code code = CodeOfStatus(fields.Number<uint32_t>());
    return Broken(code, "its sidecar died, and a new one cannot enter " + job_ +
                            " again: " + fields.String());
  }
  if (joined.kind != MessageKind::kJoined) {
    return Broken(MONSOON_INTERNAL, "the new sidecar's answer is malformed");
  }
  (void)sidecar_->socket().Send(MessageKind::kBegin, "");
  return {};
}

Result Replica::CheckReady() const {
  if (getpid() != owner_) {
    return {MONSOON_FAILED_PRECONDITION,
            "this replica was joined by process " + std::to_string(owner_) + ", and this is " +
                std::to_string(getpid()) + ", a fork of it: join after the fork"};
  }
  if (left_) {
    return {MONSOON_CANCELLED, "this replica has left its job"};
  }
  if (!begun_) {
    return {MONSOON_FAILED_PRECONDITION, "monsoon_begin must be called first"};
  }
  return broken_;
}

Result Replica::Ask(MessageKind kind, const FieldWriter& fields, monsoon_event* event) {
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  if (asked_) {
    return {MONSOON_FAILED_PRECONDITION,
            "an earlier call was interrupted: go on with monsoon_wait, or leave"};
  }
  asked_ = true;
  asked_for_ = kind;
  if (!sidecar_->socket().Send(kind, fields.bytes())) {
    if (Result restarted = Restart(); !restarted.ok()) {
      return restarted;
    }
  }
  return AwaitAnswer(event);
}

Result Replica::AwaitAnswer(monsoon_event* event) {
  while (true) {
    Message answer;
    Result next;
    switch (sidecar_->socket().Receive(/*timeout_ms=*/-1, &answer)) {
      case MessageSocket::Outcome::kDone:
        if (joins_again_) {
          next = BeginAgain(answer);
          break;
        }
        asked_ = false;
        if (zeroes_) {
          ZeroGradient();
        }
        return TakeAnswer(answer, event);
      case MessageSocket::Outcome::kInterrupted:
        return {MONSOON_INTERRUPTED, "interrupted by a signal"};
      case MessageSocket::Outcome::kMalformed:
        return Broken(MONSOON_INTERNAL, "the sidecar's answer is malformed");
      default:
        next = Restart();
    }
    if (!next.ok()) {
      return next;
    }
  }
}

Result Replica::TakeAnswer(const Message& answer, monsoon_event* event) {
  if (answer.kind == MessageKind::kRows) {
    return TakeRows(answer);
  }
  FieldReader fields(answer.fields);
  if (answer.kind == MessageKind::kError) {
    const monsoon_code code = CodeOfStatus(fields.Number<uint32_t>());
    return Broken(code, fields.String());
  }
  figures_ = EventFigures::Read(&fields);
  if (std::exchange(restarted_, false) && asked_for_ != MessageKind::kBegin) {
    figures_.discarded = 1;
  }
  if (figures_.discarded != 0) {
    ForgetBatches();
  }
  const auto batches = fields.Number<uint32_t>();
  for (uint32_t i = 0; i < batches && !fields.broken(); ++i) {
    Batch batch;
    batch.epoch = fields.Number<uint32_t>();
    const std::string_view bytes = fields.Take(fields.Number<uint32_t>() * sizeof(uint32_t));
    batch.samples.resize(bytes.size() / sizeof(uint32_t));
    std::memcpy(batch.samples.data(), bytes.data(), bytes.size());
    leased_.push_back(std::move(batch));
  }
  if (figures_.discarded == 0 &&
      (asked_for_ == MessageKind::kStep || asked_for_ == MessageKind::kNoMoreSamples)) {
    restarts_ = 0;
    steps_ += uncounted_.steps;
    examples_ += uncounted_.examples;
    uncounted_ = Uncounted();
    if (asked_for_ == MessageKind::kNoMoreSamples) {
      ForgetBatches();
    }
  }
  if (!fields.ok() || figures_.kind > MONSOON_ENDED) {
    return Broken(MONSOON_INTERNAL, "the sidecar's answer is malformed");
  }
  if (uncounted_.steps == 0) {  // else a difference is under way
    const uint32_t told = figures_.local_steps;
    steps_due_ = told == 0 ? local_steps_ : std::min(told, local_steps_);
  }
  event->kind = static_cast<monsoon_event_kind>(figures_.kind);
  event->parameters_changed = figures_.parameters_changed;
  event->discarded = figures_.discarded;
  evaluates_ = event->kind == MONSOON_EVALUATE;
  ended_ = event->kind == MONSOON_ENDED;
  if (figures_.parameters_changed != 0) {
    NoteBase();
  }
  if (ended_) {
    ForgetBatches();
  }
  return {};
}

void Replica::ZeroTakenGradient() {
  if (zeroes_ && FlagsIn(vectors_, stride_)->gradients_taken.load(std::memory_order_acquire) !=
                     taken_before_) {
    ZeroGradient();
  }
}

void Replica::ZeroGradient() {
  zeroes_ = false;
  std::memset(gradient(), 0, floats_ * sizeof(float));
}

void Replica::ForgetBatches() {
  leased_.clear();
  uncounted_batches_.clear();
  uncounted_ = Uncounted();
  rows_to_push_.clear();
  row_pieces_ = 0;
}

void Replica::NoteBase() {
  float* base = base_.data();
  for (const Range& range : differences_) {
    std::memcpy(base, parameters() + range.begin, range.size * sizeof(float));
    base += range.size;
  }
}

void Replica::WriteDifferences() {
  float* base = base_.data();
  for (const Range& range : differences_) {
    const float* const now = parameters() + range.begin;
    float* const out = gradient() + range.begin;
    for (size_t i = 0; i < range.size; ++i) {
      out[i] = base[i] - now[i];
      base[i] = now[i];
    }
    base += range.size;
  }
}

// ---- training --------------------------------------------------------------------

Result Replica::Begin(monsoon_event* event) {
  if (begun_) {
    return {MONSOON_FAILED_PRECONDITION, "monsoon_begin was called before"};
  }
  begun_ = true;
  return Ask(MessageKind::kBegin, FieldWriter(), event);
}

bool Replica::GiveBatch(monsoon_batch* batch) {
  if (leased_.empty()) {
    return false;
  }
  given_ = std::move(leased_.front());
  leased_.pop_front();
  uncounted_batches_.push_back(given_.samples.size());
  batch->samples = given_.samples.data();
  batch->count = given_.samples.size();
  batch->epoch = given_.epoch;
  batch->left = leased_.size();
  return true;
}

Result Replica::Draw(monsoon_batch* batch, monsoon_event* event) {
  *batch = monsoon_batch{};
  *event = monsoon_event{};
  if (TellUntold(event) && leased_.empty()) {
    return {};
  }
  if (ended_) {
    event->kind = MONSOON_ENDED;
    return {};
  }
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  if (leased_.empty()) {
    Result drawn = Ask(MessageKind::kDraw, FieldWriter(), event);
    if (!drawn.ok()) {
      return drawn;
    }
  }
  if (GiveBatch(batch)) {
    event->kind = MONSOON_GO;
  }
  return {};
}

Result Replica::NoMoreSamples(monsoon_event* event) {
  *event = monsoon_event{};
  if (ended_) {
    event->kind = MONSOON_ENDED;
    return {};
  }
  return Exchange(MessageKind::kNoMoreSamples, event);
}

Result Replica::StepIsDue(size_t batches, bool* is_due) {
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  *is_due = !ended_;
  if (ended_ || local_steps_ == 0 || uncounted_.steps + 1 >= steps_due_) {
    return {};
  }
  // Without a batch drawn, what the draw brings might not be a batch.
  if (!leased_.empty() || uncounted_batches_.size() > batches || uncounted_batches_.empty()) {
    *is_due = false;
    return {};
  }
  monsoon_event event{};
  Result drawn = Ask(MessageKind::kDraw, FieldWriter(), &event);
  if (drawn.ok()) {
    *is_due = leased_.empty();
    if (event.discarded != 0) {
      untold_ = event;
    }
  }
  return drawn;
}

bool Replica::TellUntold(monsoon_event* event) {
  if (!untold_) {
    return false;
  }
  *event = *std::exchange(untold_, std::nullopt);
  return true;
}

Result Replica::Step(const monsoon_step_info& step, monsoon_event* event) {
  *event = monsoon_event{};
  if (TellUntold(event)) {
    return {};
  }
  if (ended_) {
    event->kind = MONSOON_ENDED;
    return {};
  }
  if (step.batches > uncounted_batches_.size()) {
    return {MONSOON_FAILED_PRECONDITION,
            "the step counts " + std::to_string(step.batches) + " batches, and " +
                std::to_string(uncounted_batches_.size()) +
                " are drawn and not counted: draw them by monsoon_draw"};
  }
  bool is_due = true;
  if (Result asked = StepIsDue(step.batches, &is_due); !asked.ok()) {
    if (asked.code == MONSOON_INTERRUPTED) {
      waiting_step_ = step;
    }
    return asked;
  }
  waiting_step_.reset();
  if (TellUntold(event)) {
    return {};
  }
  if (is_due && step.unless_due != 0) {
    event->kind = MONSOON_DUE;
    return {};
  }
  uint64_t examples = 0;
  for (size_t i = 0; i < step.batches; ++i) {
    examples += uncounted_batches_.front();
    uncounted_batches_.pop_front();
  }
  ++uncounted_.steps;
  uncounted_.batches += static_cast<uint32_t>(step.batches);
  examples = step.examples != 0 ? step.examples : examples;
  uncounted_.examples += examples;
  if (step.has_correct != 0) {
    uncounted_.judged += examples;
    uncounted_.correct += step.correct;
  }
  if (step.has_loss != 0) {
    uncounted_.loss_sum += step.loss;
    ++uncounted_.loss_steps;
  }
  if (!is_due) {
    return {};
  }
  zeroes_ = step.zero_gradient != 0 && local_steps_ == 0;
  taken_before_ = FlagsIn(vectors_, stride_)->gradients_taken.load(std::memory_order_relaxed);
  return Exchange(MessageKind::kStep, event);
}

Result Replica::Exchange(MessageKind kind, monsoon_event* event) {
  if (uncounted_.steps > 0) {
    WriteDifferences();
  }
  FieldWriter fields;
  fields.Number(uncounted_.batches);
  fields.Number(uncounted_.steps);
  fields.Number(uncounted_.examples);
  fields.Number(uncounted_.judged);
  fields.Number(uncounted_.correct);
  fields.Number(static_cast<uint8_t>(uncounted_.loss_steps > 0));
  fields.Number(uncounted_.loss_steps == 0
                    ? 0.0
                    : uncounted_.loss_sum / static_cast<double>(uncounted_.loss_steps));
  fields.Number(std::exchange(row_pieces_, 0));
  fields.Bytes(rows_to_push_.data(), rows_to_push_.size());
  rows_to_push_.clear();
  return Ask(kind, fields, event);
}

Result Replica::ReportEvaluation(const monsoon_metric* metrics, size_t count, const char* failure,
                                 monsoon_event* event) {
  *event = monsoon_event{};
  if (!evaluates_) {
    return {MONSOON_FAILED_PRECONDITION, "no evaluation was asked for"};
  }
  FieldWriter fields;
  fields.String(failure == nullptr ? "" : failure);
  fields.Number(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    if (metrics[i].name == nullptr) {
      return Invalid("metric " + std::to_string(i) + " has no name");
    }
    fields.String(metrics[i].name);
    fields.Number(metrics[i].value);
  }
  return Ask(MessageKind::kEvaluated, fields, event);
}

Result Replica::Wait(monsoon_batch* batch, monsoon_event* event) {
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  if (!asked_) {
    return {MONSOON_FAILED_PRECONDITION, "no call was interrupted"};
  }
  Result answered = AwaitAnswer(event);
  if (answered.ok() && row_fetch_) {
    return FinishRows(event);
  }
  if (answered.ok() && waiting_step_) {
    if (event->discarded != 0) {
      waiting_step_.reset();  // what it would count is gone
      return answered;
    }
    return Step(monsoon_step_info(*waiting_step_), event);
  }
  if (answered.ok() && batch != nullptr) {
    *batch = monsoon_batch{};
    if (asked_for_ == MessageKind::kDraw && GiveBatch(batch)) {
      event->kind = MONSOON_GO;
    }
  }
  return answered;
}

void Replica::GetStats(monsoon_stats* stats) const {
  stats->steps = steps_;
  stats->examples = examples_;
  stats->fetches = figures_.fetches;
  stats->pushes = figures_.pushes;
  stats->refused = figures_.refused;
  stats->bytes_fetched = figures_.bytes_fetched;
  stats->bytes_pushed = figures_.bytes_pushed;
  stats->staleness = figures_.staleness;
  stats->staleness_max = figures_.staleness_max;
  stats->sessions = earlier_sessions_ + figures_.sessions;
  stats->evaluations = figures_.evaluations;
  stats->replicas = figures_.replicas;
  stats->worker = figures_.worker;
  stats->sidecar_pid = static_cast<uint32_t>(sidecar_->pid());
  stats->local_steps = steps_due_;
}

}  // namespace monsoon
