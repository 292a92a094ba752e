#include "worker/client/replica.h"

#include <algorithm>
#include <string>
#include <utility>

namespace monsoon {

// ---- entering --------------------------------------------------------------------

Result Replica::Join(const monsoon_join_options& options, std::unique_ptr<Replica>* replica) {
  std::string join;
  if (Result written = WriteJoin(options, &join); !written.ok()) {
    return written;
  }
  std::unique_ptr<Replica> made(
      new Replica({options.sidecar == nullptr ? "" : options.sidecar,
                   options.log_file == nullptr ? "" : options.log_file, std::move(join)}));
  Message answer;
  Result joined = made->link_.Join(ConnectTimeoutMs(options), &answer);
  if (joined.ok()) {
    joined = made->TakeJoined(answer, options);
  }
  if (joined.ok()) {
    *replica = std::move(made);
  }
  return joined;
}

Result Replica::TakeJoined(const Message& answer, const monsoon_join_options& options) {
  if (Result read = ReadJoined(answer, link_.memory() >= 0, options.format, &job_); !read.ok()) {
    return read;
  }
  if (Result mapped = vectors_.Map(link_.memory(), job_); !mapped.ok()) {
    return mapped;
  }
  vectors_.SetDifferences(DifferencesOf(options, job_));
  rows_.SetTables(job_.tables);
  steps_due_ = job_.local_steps;
  link_.Joined(job_.name, [this] { vectors_.ZeroIfTaken(); });
  return {};
}

// ---- the exchange --------------------------------------------------------------

Result Replica::CheckReady() const {
  if (Result usable = link_.CheckUsable(); !usable.ok()) {
    return usable;
  }
  if (!begun_) {
    return {MONSOON_FAILED_PRECONDITION, "monsoon_begin must be called first"};
  }
  return link_.broken();
}

Result Replica::CheckFree() const {
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  return link_.asked()
             ? Result{MONSOON_FAILED_PRECONDITION,
                      "an earlier call was interrupted: go on with monsoon_wait, or leave"}
             : Result();
}

Result Replica::Ask(MessageKind kind, const FieldWriter& fields, monsoon_event* event) {
  if (Result free = CheckFree(); !free.ok()) {
    return free;
  }
  if (Result sent = link_.Ask(kind, fields); !sent.ok()) {
    return sent;
  }
  return AwaitAnswer(event);
}

Result Replica::AwaitAnswer(monsoon_event* event) {
  Message answer;
  if (Result awaited = link_.Await(&answer); !awaited.ok()) {
    return awaited;
  }
  vectors_.ZeroAfterAnswer();
  return TakeAnswer(answer, event);
}

Result Replica::TakeAnswer(const Message& answer, monsoon_event* event) {
  constexpr char kMalformed[] = "the sidecar's answer is malformed";
  if (answer.kind == MessageKind::kRows) {
    return rows_.TakeFetched(answer) ? Result() : link_.Break(MONSOON_INTERNAL, kMalformed);
  }
  if (answer.kind == MessageKind::kStream) {
    return streams_.TakeTaken(answer) ? Result() : link_.Break(MONSOON_INTERNAL, kMalformed);
  }
  FieldReader fields(answer.fields);
  if (answer.kind == MessageKind::kError) {
    const monsoon_code code = CodeOfStatus(fields.Number<uint32_t>());
    return link_.Break(code, fields.String());
  }
  const bool restarted = link_.TakeRestarted();
  if (restarted) {
    earlier_sessions_ += figures_.sessions;
  }
  figures_ = EventFigures::Read(&fields);
  if (restarted && link_.asked_for() != MessageKind::kBegin) {
    figures_.discarded = 1;
  }
  // What is discarded goes before the answer's own batches are taken: those are of the new session.
  if (figures_.discarded != 0) {
    ForgetBatches();
  }
  batches_.ReadLeased(&fields);
  const MessageKind asked_for = link_.asked_for();
  const bool is_last =
      asked_for == MessageKind::kNoMoreSamples || asked_for == MessageKind::kFinish;
  if (figures_.discarded == 0 && (asked_for == MessageKind::kStep || is_last)) {
    link_.NoteStep();
    batches_.TakeCounted();
    // After the answer's batches too: the program draws no more of them.
    if (is_last) {
      ForgetBatches();
    }
  }
  if (!fields.ok() || figures_.kind > MONSOON_ENDED) {
    return link_.Break(MONSOON_INTERNAL, kMalformed);
  }
  if (batches_.uncounted_steps() == 0) {  // else a difference is under way
    const uint32_t told = figures_.local_steps;
    steps_due_ = told == 0 ? job_.local_steps : std::min(told, job_.local_steps);
  }
  event->kind = static_cast<monsoon_event_kind>(figures_.kind);
  event->parameters_changed = figures_.parameters_changed;
  event->discarded = figures_.discarded;
  evaluates_ = event->kind == MONSOON_EVALUATE;
  ended_ = event->kind == MONSOON_ENDED;
  if (figures_.parameters_changed != 0) {
    vectors_.NoteBase();
  }
  if (ended_) {
    ForgetBatches();
  }
  return {};
}

void Replica::ForgetBatches() {
  batches_.Forget();
  rows_.ForgetGradients();
  streams_.Forget();
}

// ---- training --------------------------------------------------------------------

Result Replica::Begin(monsoon_event* event) {
  if (begun_) {
    return {MONSOON_FAILED_PRECONDITION, "monsoon_begin was called before"};
  }
  begun_ = true;
  return Ask(MessageKind::kBegin, FieldWriter(), event);
}

Result Replica::Draw(monsoon_batch* batch, monsoon_event* event) {
  *batch = monsoon_batch{};
  *event = monsoon_event{};
  if (TellUntold(event) && !batches_.has_leased()) {
    return {};
  }
  if (ended_) {
    event->kind = MONSOON_ENDED;
    return {};
  }
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  if (!batches_.has_leased()) {
    Result drawn = Ask(MessageKind::kDraw, FieldWriter(), event);
    if (!drawn.ok()) {
      return drawn;
    }
  }
  if (batches_.Give(batch)) {
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

Result Replica::Finish(monsoon_event* event) {
  *event = monsoon_event{};
  if (TellUntold(event)) {
    return {};
  }
  if (ended_) {
    event->kind = MONSOON_ENDED;
    return {};
  }
  if (evaluates_) {
    return {MONSOON_FAILED_PRECONDITION,
            "an evaluation was asked for: monsoon_report_evaluation comes first"};
  }
  if (Result free = CheckFree(); !free.ok()) {
    return free;
  }
  rows_.ForgetGradients();  // of a step that does not come
  return Exchange(MessageKind::kFinish, event);
}

Result Replica::StepIsDue(size_t batches, bool* is_due) {
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  *is_due = !ended_;
  if (ended_ || job_.local_steps == 0 || batches_.uncounted_steps() + 1 >= steps_due_) {
    return {};
  }
  // Without a batch drawn, what the draw brings might not be a batch.
  if (batches_.has_leased() || batches_.unstepped() > batches || batches_.unstepped() == 0) {
    *is_due = false;
    return {};
  }
  monsoon_event event{};
  Result drawn = Ask(MessageKind::kDraw, FieldWriter(), &event);
  if (drawn.ok()) {
    *is_due = !batches_.has_leased();
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

Result Replica::CheckAbsent(const monsoon_step_info& step) const {
  if (step.absent_count > 0 && job_.local_steps > 0) {
    return {
        MONSOON_FAILED_PRECONDITION,
        "with local steps a difference has a value for each parameter, and no tensor is absent"};
  }
  if (step.absent_count > 0 && step.absent == nullptr) {
    return Invalid("absent tensors are counted, and not named");
  }
  for (size_t i = 0; i < step.absent_count; ++i) {
    if (step.absent[i] >= job_.offsets.size() || (i > 0 && step.absent[i] <= step.absent[i - 1])) {
      return Invalid("absent tensor " + std::to_string(step.absent[i]) + " of " +
                     std::to_string(job_.offsets.size()) + ": numbers below that, rising, are");
    }
  }
  return {};
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
  if (step.batches > batches_.unstepped()) {
    return {MONSOON_FAILED_PRECONDITION,
            "the step counts " + std::to_string(step.batches) + " batches, and " +
                std::to_string(batches_.unstepped()) +
                " are drawn and not counted: draw them by monsoon_draw"};
  }
  if (Result known = CheckAbsent(step); !known.ok()) {
    return known;
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
  batches_.CountStep(step);
  streams_.CountStep();
  if (!is_due) {
    return {};
  }
  absent_.assign(step.absent, step.absent + step.absent_count);
  // Gradients add up; differences replace what the vector had.
  vectors_.SendGradient(step.zero_gradient != 0 && job_.local_steps == 0);
  return Exchange(MessageKind::kStep, event);
}

Result Replica::Exchange(MessageKind kind, monsoon_event* event) {
  if (batches_.uncounted_steps() > 0) {
    vectors_.WriteDifferences();
  }
  FieldWriter fields;
  batches_.WriteUncounted(&fields);
  rows_.TakeGradients(&fields);
  fields.Number(static_cast<uint32_t>(absent_.size()));
  for (const uint32_t tensor : std::exchange(absent_, {})) {
    fields.Number(tensor);
  }
  streams_.TakeCounted(&fields);
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

Result Replica::ReportDivergence(const char* what, monsoon_event* event) {
  *event = monsoon_event{};
  if (ended_) {
    event->kind = MONSOON_ENDED;
    return {};
  }
  FieldWriter fields;
  fields.String(what);
  return Ask(MessageKind::kDiverged, fields, event);
}

Result Replica::Wait(monsoon_batch* batch, monsoon_event* event) {
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  if (!link_.asked()) {
    return {MONSOON_FAILED_PRECONDITION, "no call was interrupted"};
  }
  Result answered = AwaitAnswer(event);
  if (answered.ok() && rows_.fetches()) {
    return FinishRows(event);
  }
  if (answered.ok() && streams_.takes()) {
    return FinishTake(event);
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
    if (link_.asked_for() == MessageKind::kDraw && batches_.Give(batch)) {
      event->kind = MONSOON_GO;
    }
  }
  return answered;
}

// ---- rows of tables ----------------------------------------------------------------

Result Replica::FetchRows(size_t table, const uint64_t* rows, size_t count, float* values,
                          monsoon_event* event) {
  *event = monsoon_event{};
  if (Result free = CheckFree(); !free.ok()) {
    return free;
  }
  if (Result known = rows_.Check(table, rows, count); !known.ok() || count == 0) {
    return known;
  }
  rows_.BeginFetch(table, rows, count, values);
  return FinishRows(event);
}

Result Replica::FinishRows(monsoon_event* event) {
  while (!rows_.fetch_is_done()) {
    FieldWriter fields;
    rows_.WriteFetch(&fields);
    if (const Result asked = AskAgain(MessageKind::kFetchRows, fields, event); !asked.ok()) {
      if (asked.code != MONSOON_INTERRUPTED) {
        rows_.EndFetch();
      }
      return asked;
    }
  }
  rows_.EndFetch();
  return {};
}

Result Replica::PushRows(size_t table, const uint64_t* rows, size_t count, const float* values) {
  if (job_.local_steps > 0) {
    return {MONSOON_FAILED_PRECONDITION,
            "rows of tables are pushed with gradients, and this job pushes differences of "
            "local steps"};
  }
  return rows_.AddGradient(table, rows, count, values);
}

// ---- streams ---------------------------------------------------------------------------

Result Replica::TakeStream(std::string_view name, monsoon_event* event) {
  *event = monsoon_event{};
  if (ended_) {
    event->kind = MONSOON_ENDED;
    return {};
  }
  if (Result free = CheckFree(); !free.ok()) {
    return free;
  }
  if (Result known = streams_.BeginTake(name); !known.ok()) {
    return known;
  }
  return FinishTake(event);
}

Result Replica::FinishTake(monsoon_event* event) {
  while (streams_.takes() && !ended_) {
    FieldWriter fields;
    streams_.WriteTake(&fields);
    if (const Result asked = AskAgain(MessageKind::kTakeStream, fields, event); !asked.ok()) {
      if (asked.code != MONSOON_INTERRUPTED) {
        streams_.EndTake();
      }
      return asked;
    }
  }
  streams_.EndTake();
  return {};
}

Result Replica::AskAgain(MessageKind kind, const FieldWriter& fields, monsoon_event* event) {
  monsoon_event told{};
  const Result asked = Ask(kind, fields, &told);
  event->kind = told.kind != MONSOON_GO ? told.kind : event->kind;
  event->parameters_changed |= told.parameters_changed;
  event->discarded |= told.discarded;
  return asked;
}

// ---- figures -----------------------------------------------------------------------

void Replica::GetStats(monsoon_stats* stats) const {
  stats->steps = batches_.steps();
  stats->examples = batches_.examples();
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
  stats->sidecar_pid = static_cast<uint32_t>(link_.sidecar_pid());
  stats->local_steps = steps_due_;
}

}  // namespace monsoon
