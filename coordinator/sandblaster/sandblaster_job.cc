#include "coordinator/sandblaster/sandblaster_job.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/settings/number_rule.h"
#include "coordinator/lbfgs/minimizer.h"

namespace monsoon {
namespace {

// A replica that waits for the driver is asked for again soon, by the coordinator for
// a while (Coordinator::NextWork), then by itself: a step of L-BFGS between two
// evaluations takes milliseconds. Many replicas share about 5000 calls/s.
constexpr uint32_t kMinWaitMs = 2;
constexpr uint32_t kMaxWaitMs = 20;
constexpr size_t kCallsPerMs = 5;

}  // namespace

absl::StatusOr<SandblasterOptions> SandblasterOptions::FromJob(const Job& job, uint64_t examples,
                                                               uint32_t replicas) {
  const Sandblaster& sandblaster = job.sandblaster();
  SandblasterOptions options;
  options.max_iterations = static_cast<uint32_t>(NumberOrUnset(sandblaster, "max_iterations"));
  options.backup_copies = !sandblaster.no_backup_copies();
  options.examples = examples;
  options.has_test = job.has_test();
  options.keep_best = job.checkpoint().keep_best();
  options.evaluate_every_iterations = sandblaster.evaluate_every_iterations();
  options.target_accuracy = sandblaster.target_accuracy();
  if (sandblaster.sample_examples() > examples) {
    return absl::InvalidArgumentError(
        absl::StrCat("sandblaster.sample_examples: ", sandblaster.sample_examples(),
                     " is more than the ", examples, " samples of the training set"));
  }
  ChunkPlanOptions chunks;
  chunks.examples = sandblaster.sample_examples() != 0 ? sandblaster.sample_examples() : examples;
  chunks.chunk_examples =
      sandblaster.chunk_examples() != 0 ? sandblaster.chunk_examples() : job.batch_size();
  chunks.chunks_per_contribution = sandblaster.chunks_per_contribution();
  chunks.replicas = replicas;
  ASSIGN_OR_RETURN(options.plan, ChunkPlan::Make(chunks));
  return options;
}

SandblasterJob::SandblasterJob(const SandblasterOptions& options, const JobWriter& writer)
    : ProcedureBase(writer, SANDBLASTER,
                    {.has_test = options.has_test,
                     .every = static_cast<double>(options.evaluate_every_iterations),
                     .ends_job = true,
                     .best = options.keep_best}),
      options_(options),
      scheduler_(options.backup_copies) {
  for (const uint32_t worker : replicas_.live()) {
    scheduler_.AddReplica(worker);
  }
}

// ---- the driver --------------------------------------------------------------

void SandblasterJob::StartEvaluation(uint64_t evaluation, const std::string& vector, bool probe,
                                     absl::Duration now) {
  CHECK(evaluation > scheduler_.evaluation() && !scheduler_.open() && !finished_ && !trained());
  vector_ = vector;
  evaluation_began_ = now;
  scheduler_.Begin(evaluation, contributions(probe));
  ledger_.Begin(contributions(probe));
}

std::optional<SandblasterJob::EvaluationResult> SandblasterJob::FinishedEvaluation() {
  return std::exchange(finished_, std::nullopt);
}

void SandblasterJob::CancelEvaluation() {
  scheduler_.End();
  finished_.reset();
}

void SandblasterJob::Return() {
  CHECK(!trained());
  CancelEvaluation();
  if (const std::optional<uint32_t> worker = test_.assigned_worker()) {
    test_.Remove(*worker);
  }
}

void SandblasterJob::NoteIteration(JobDescription::Iteration iteration, absl::Duration now) {
  iteration.set_elapsed_s(started() ? absl::ToDoubleSeconds(now - *started()) : 0);
  test_.NoteProgress(iteration.iteration());
  procedure_.Make(
      [&](StateUpdate* update) { *update->mutable_iteration() = std::move(iteration); });
}

void SandblasterJob::NoteFigures(const BatchFigures& figures) {
  procedure_.Make([&](StateUpdate* update) { *update->mutable_batch_figures() = figures; });
}

bool SandblasterJob::target_reached() const {
  return options_.target_accuracy > 0 &&
         std::ranges::any_of(test_.records(), [this](const TestResult& record) {
           return !record.final && record.accuracy >= options_.target_accuracy;
         });
}

uint64_t SandblasterJob::steps_done() const {
  return state().iteration().empty() ? 0 : state().iteration().rbegin()->iteration();
}

void SandblasterJob::Begin(const std::string& text, absl::Duration now) {
  procedure_.Started(ProcedureState::RUNNING, now);
  AddEvent("running", "", text);
}

void SandblasterJob::DriverDone(const BatchEnd& end, absl::Duration now) {
  CHECK(!trained());
  CancelEvaluation();
  procedure_.Make([&](StateUpdate* update) {
    update->mutable_batch_ended()->set_reason(end.reason);
    update->mutable_batch_ended()->set_detail(end.detail);
  });
  if (!started()) {
    procedure_.Started(ProcedureState::IDLE, now);
  }
  procedure_.Trained(ProcedureState::FINAL_EVALUATION, now);
  test_.DropDue();
  test_.RequestFinal();
  AddEvent("finishing", "",
           end.detail.empty() ? end.reason : absl::StrCat(end.reason, ": ", end.detail));
  Advance(now);
}

// ---- the core ----------------------------------------------------------------

void SandblasterJob::AddReplica(uint32_t worker, absl::Duration now) {
  replicas_.Add(worker);
  scheduler_.AddReplica(worker);
  if (phase() == Phase::kIdle) {
    Begin(absl::StrCat(WorkerName(worker), " computes contributions"), now);
  }
}

uint64_t SandblasterJob::RemoveReplica(uint32_t worker, absl::Duration now) {
  if (!replicas_.Remove(worker)) {
    return 0;
  }
  test_.Remove(worker);
  const uint64_t again = scheduler_.RemoveReplica(worker, now);
  Advance(now);
  return again;
}

absl::Status SandblasterJob::TakeReport(uint32_t worker, const NextWorkRequest& request,
                                        absl::Duration now) {
  if (request.end_job()) {
    return absl::FailedPreconditionError(
        absl::StrCat(WorkerName(worker),
                     " ends the training of a batch job (sandblaster), which only its settings "
                     "do; cancel it to stop it"));
  }
  for (const ContributionResult& result : request.contribution()) {
    RETURN_IF_ERROR(Validate(worker, result));
  }
  for (const std::string& fingerprint : request.stats().backend_fingerprint()) {
    NoteBackend(worker, PeerText(fingerprint, kMostPeerText));
  }
  for (const ContributionResult& result : request.contribution()) {
    Take(worker, result, now);
  }
  return absl::OkStatus();
}

bool SandblasterJob::WorkIsNear(uint32_t worker) const {
  return phase() == Phase::kRunning && !trained() && replicas_.contains(worker) &&
         scheduler_.held(worker) == 0;
}

absl::Status SandblasterJob::Validate(uint32_t worker, const ContributionResult& result) const {
  if (!scheduler_.open() || result.evaluation() != scheduler_.evaluation() || result.closed()) {
    return absl::OkStatus();
  }
  const std::string name = absl::StrCat("contribution ", result.contribution(), " of evaluation ",
                                        result.evaluation(), ", sent by ", WorkerName(worker), ",");
  if (result.contribution() >= scheduler_.progress().total) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is none of its ", scheduler_.progress().total));
  }
  const uint32_t examples = options_.plan.piece(result.contribution()).examples;
  if (result.finite() &&
      (result.examples() != examples || !(result.correct() >= 0 && result.correct() <= examples))) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has ", result.correct(), " correct of ",
                                                   result.examples(), " samples instead of ",
                                                   examples));
  }
  return absl::OkStatus();
}

void SandblasterJob::Take(uint32_t worker, const ContributionResult& result, absl::Duration now) {
  if (result.closed()) {
    // Of the open evaluation: no shard may say so, and it is still missing.
    scheduler_.Return(worker, result.evaluation(), result.contribution(), now);
    return;
  }
  if (scheduler_.Complete(worker, result.evaluation(), result.contribution(), now) !=
      ContributionScheduler::Outcome::kFirst) {
    return;
  }
  CHECK(ledger_.Add(result.contribution(),
                    {result.loss_sum(), result.examples(), result.correct(), result.finite()}));
  examples_done_ += options_.plan.piece(result.contribution()).examples;
  if (!ledger_.finite()) {
    AddEvent("not_finite", WorkerName(worker),
             absl::StrCat("contribution ", result.contribution(), " of evaluation ",
                          result.evaluation(), ": the step will shrink"));
    Finish(now);
  } else if (scheduler_.complete()) {
    CHECK(ledger_.complete());
    Finish(now);
  }
}

void SandblasterJob::Finish(absl::Duration now) {
  const ContributionLoss total = ledger_.Total();
  finished_ = EvaluationResult{scheduler_.evaluation(), total.loss_sum, total.examples,
                               total.correct,           total.finite,   now - evaluation_began_};
  scheduler_.End();
}

void SandblasterJob::NoteBackend(uint32_t worker, const std::string& fingerprint) {
  const auto known = [&](const BackendSeen& seen) { return seen.fingerprint() == fingerprint; };
  if (std::ranges::any_of(state().backend(), known)) {
    return;
  }
  procedure_.Make([&](StateUpdate* update) {
    update->mutable_backend_seen()->set_fingerprint(fingerprint);
    update->mutable_backend_seen()->set_worker(worker);
  });
  if (state().backend_size() == 2) {
    std::string names;
    for (const BackendSeen& seen : state().backend()) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", WorkerName(seen.worker()), " has ",
                      seen.fingerprint());
    }
    AddEvent("mixed_backends", WorkerName(worker),
             absl::StrCat(names, ": each contribution counts once, but not with the same bits"));
  }
}

void SandblasterJob::Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) {
  if (phase() >= Phase::kLeaving) {
    reply->mutable_finish();
    return;
  }
  if (const auto id = test_.Assign(worker, replicas_.live())) {
    // First what it holds: the batch waits for that.
    if (scheduler_.held(worker) > 0) {
      Wait(reply);
      return;
    }
    test_.GivenOut(AsOf(now));
    reply->mutable_evaluate()->set_evaluation(*id);
    reply->mutable_evaluate()->set_vector(test_.vector());
    return;
  }
  if (const auto id = scheduler_.Next(worker, now)) {
    const ChunkPlan::Piece piece = options_.plan.piece(*id);
    NextWorkReply::Contribute* const contribute = reply->mutable_contribute();
    contribute->set_evaluation(scheduler_.evaluation());
    contribute->set_vector(vector_);
    NextWorkReply::Contribution* const contribution = contribute->add_contribution();
    contribution->set_contribution(*id);
    contribution->set_first(piece.first);
    contribution->set_examples(piece.examples);
    return;
  }
  Wait(reply);
}

void SandblasterJob::Wait(NextWorkReply* reply) const {
  const auto shared =
      static_cast<uint32_t>(std::min<size_t>(replicas_.live().size() / kCallsPerMs, 1000));
  reply->mutable_wait()->set_retry_ms(std::clamp(shared, kMinWaitMs, kMaxWaitMs));
}

absl::Status SandblasterJob::ReportEvaluation(uint32_t worker,
                                              const ReportEvaluationRequest& request,
                                              absl::Duration now) {
  ASSIGN_OR_RETURN(const TestResult* const record, test_.Report(worker, request));
  if (record == nullptr) {
    return absl::OkStatus();
  }
  AddEvent("evaluation", WorkerName(worker),
           absl::StrFormat("iteration %d: accuracy %.4f, loss %.4f", record->step, record->accuracy,
                           record->loss));
  Advance(now);
  return absl::OkStatus();
}

// ---- its parameters ----------------------------------------------------------

bool SandblasterJob::stands_still() const {
  // Before it begins, and at its end; what it goes on from is held already.
  return HeldSnapshot(job_.job()) == nullptr || driver_.end.has_value();
}

BatchSnapshot SandblasterJob::MakeSnapshot(const MinimizerStateFunction& state,
                                           CheckpointContext* context) const {
  BatchSnapshot snapshot;
  if (state) {
    *snapshot.mutable_minimizer() = state();
    for (std::string& name : VectorsOf(snapshot.minimizer())) {
      context->add_vector(std::move(name));
    }
  } else if (driver_.end) {
    snapshot.mutable_end()->set_reason(driver_.end->reason);
    snapshot.mutable_end()->set_detail(driver_.end->detail);
  } else {
    snapshot.set_start(true);
  }
  return snapshot;
}

// ---- what people see ---------------------------------------------------------

double SandblasterJob::epoch() const {
  return options_.examples == 0
             ? 0
             : static_cast<double>(examples_done_) / static_cast<double>(options_.examples);
}

double SandblasterJob::fraction(absl::Duration) const {
  if (trained()) {
    return 1;
  }
  return std::min(
      1.0, static_cast<double>(steps_done()) / std::max<uint32_t>(options_.max_iterations, 1));
}

void SandblasterJob::Describe(JobDescription* description) const {
  description->set_mode("sandblaster");
  JobDescription::Sandblaster* const out = description->mutable_sandblaster();
  if (!state().iteration().empty()) {
    const JobDescription::Iteration& last = *state().iteration().rbegin();
    out->set_iteration(last.iteration());
    out->set_f(last.f());
    out->set_gradient_norm(last.gradient_norm());
    out->set_step_length(last.step_length());
  }
  const BatchFigures& figures = state().figures();
  out->set_evaluations(figures.evaluations());
  out->set_overflows(figures.overflows());
  out->set_commands(figures.commands());
  out->set_command_bytes(figures.command_bytes());
  out->set_largest_command_bytes(figures.largest_command_bytes());
  const ContributionScheduler::Progress& progress = scheduler_.progress();
  out->set_chunks_total(progress.total);
  out->set_chunks_done(progress.done);
  out->set_chunks_outstanding(progress.outstanding);
  const ContributionScheduler::Statistics& statistics = scheduler_.statistics();
  out->set_chunks_backup(statistics.backup_copies);
  if (statistics.leases > 0) {
    out->set_affinity(static_cast<double>(statistics.continuing_leases) /
                      static_cast<double>(statistics.leases));
  }
  out->set_end_reason(state().end_reason());
  out->set_end_detail(state().end_detail());
  out->set_reproducibility(reproducibility());
  *out->mutable_trace() = state().iteration();
}

void BeginSandblaster(const SandblasterOptions& options, JobRecord* job) {
  job->Make([&](StateUpdate* update) {
    update->set_procedure(SANDBLASTER);
    StoredContributionPlan* const stored = update->mutable_procedure_begun()->mutable_plan();
    stored->set_examples(options.plan.examples());
    stored->set_contribution_examples(options.plan.contribution_examples());
    stored->set_chunks_per_contribution(options.plan.chunks_per_contribution());
  });
  ContinueSandblaster(options, job);
}

void ContinueSandblaster(const SandblasterOptions& options, JobRecord* job) {
  job->AddProcedure(std::make_unique<SandblasterJob>(options, job->writer()));
}

SandblasterJob* BatchOf(const JobRecord& job) {
  JobProcedure* const procedure = job.procedure();
  return procedure != nullptr && procedure->kind() == SANDBLASTER
             ? static_cast<SandblasterJob*>(procedure)
             : nullptr;
}

}  // namespace monsoon
