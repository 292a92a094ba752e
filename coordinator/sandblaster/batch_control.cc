#include "coordinator/sandblaster/batch_control.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/state/coordinator_state.h"

namespace monsoon {
namespace {

absl::Status Ended(const BatchKey& batch) {
  return absl::CancelledError(absl::StrCat("job ", batch.job, " has ended, or has returned"));
}

}  // namespace

SandblasterOptions BatchControl::BatchOptionsOf(const JobRecord& job) const {
  absl::StatusOr<SandblasterOptions> options =
      SandblasterOptions::FromJob(job.plan.job, job.plan.examples, job.plan.replicas);
  CHECK_OK(options.status());  // JobPlan::Make has judged it.
  options->keep_best = View(job).BestMetric();
  return *std::move(options);
}

void BatchControl::Begin(JobRecord* job) { BeginSandblaster(BatchOptionsOf(*job), job); }

void BatchControl::Continue(JobRecord* job) { ContinueSandblaster(BatchOptionsOf(*job), job); }

// ---- the minimiser's thread --------------------------------------------------

JobRecord* BatchControl::RunningBatch(const BatchKey& batch) const {
  JobRecord* const job = jobs_.ActiveOfQueue();
  const bool runs = job != nullptr && job->id() == batch.job && job->batch_under_way() &&
                    job->state().sandblaster().attempt() == batch.attempt &&
                    !BatchOf(*job)->driver().end;
  return runs ? job : nullptr;
}

std::optional<BatchTask> BatchControl::TakeBatch() {
  JobRecord* const job = jobs_.ActiveOfQueue();
  SandblasterJob* const procedure =
      job != nullptr && job->batch_under_way() ? BatchOf(*job) : nullptr;
  if (procedure == nullptr || procedure->driver().there || procedure->driver().end) {
    return std::nullopt;
  }
  const BatchSnapshot* const held = HeldSnapshot(job->state());
  if (View(*job).IsDurable()) {
    const bool ready = held != nullptr && !held->has_end() && !job->checkpoints.under_way();
    if (!ready || View(*job).AwaitsShard()) {
      return std::nullopt;
    }
  }
  const SandblasterState& state = job->state().sandblaster();
  procedure->driver().there = true;
  procedure->driver().taken = state.attempt();
  BatchTask task;
  task.batch = {job->id(), state.attempt()};
  task.job_term = job->state().term();
  task.term = term();
  task.config = job->plan.job;
  task.shard_epochs.assign(job->state().shard_epoch().begin(), job->state().shard_epoch().end());
  task.contributions = procedure->contributions(false);
  task.figures = state.figures();
  if (held != nullptr && held->has_minimizer()) {
    task.from = held->minimizer();
  }
  return task;
}

bool BatchControl::Waits(const BatchKey& batch) const {
  const JobRecord* const job = RunningBatch(batch);
  return job != nullptr && job->checkpoints.under_way();
}

absl::Status BatchControl::StartEvaluation(const BatchKey& batch, uint64_t evaluation,
                                           const std::string& w, bool probe, Moment moment) {
  JobRecord* const job = RunningBatch(batch);
  if (job == nullptr) {
    return Ended(batch);
  }
  BatchOf(*job)->StartEvaluation(evaluation, w, probe, moment.now);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BatchResult>> BatchControl::FinishedEvaluation(const BatchKey& batch) {
  JobRecord* const job = RunningBatch(batch);
  if (job == nullptr) {
    return Ended(batch);
  }
  const auto result = BatchOf(*job)->FinishedEvaluation();
  if (!result) {
    return std::optional<BatchResult>();
  }
  return std::make_optional(BatchResult{result->loss_sum, result->examples, result->finite});
}

absl::StatusOr<bool> BatchControl::NoteIteration(const BatchKey& batch,
                                                 const JobDescription::Iteration& iteration,
                                                 const BatchFigures& figures,
                                                 const MinimizerStateFunction& state,
                                                 Moment moment) {
  JobRecord* const job = RunningBatch(batch);
  if (job == nullptr) {
    return Ended(batch);
  }
  BatchOf(*job)->NoteFigures(figures);
  BatchOf(*job)->NoteIteration(iteration, moment.now);
  checkpoints_->OrderCheckpoint(job, CheckpointSchedule::Activity::kBatch, moment, state);
  return !BatchOf(*job)->target_reached();
}

void BatchControl::EndBatch(const BatchKey& batch, const absl::StatusOr<BatchEnd>& end,
                            Moment moment) {
  if (JobRecord* const known = jobs_.Lookup(batch.job)) {
    if (SandblasterJob* const procedure = BatchOf(*known)) {
      procedure->driver().there = false;
    }
  }
  JobRecord* const job = RunningBatch(batch);
  if (job != nullptr && end.ok()) {
    if (View(*job).IsDurable()) {
      BatchOf(*job)->driver().end = *end;
      job->checkpoints.Request(/*over=*/false, "the batch has ended");
    } else {
      BatchOf(*job)->DriverDone(*end, moment.now);
    }
  } else if (job != nullptr && absl::IsAborted(end.status()) && View(*job).CanReturn()) {
    // A shard was started anew, as the next poll will tell.
    ReturnBatch(job, end.status().message(), moment.now);
  } else if (job != nullptr && !absl::IsCancelled(end.status())) {
    registry_->End(job, FAILED, absl::StrCat("sandblaster: ", end.status().message()), moment.now);
  }  // Cancelled while it runs: the coordinator stops, and its next life goes on.
}

void BatchControl::FinishBatch(JobRecord* job, absl::Duration now) {
  if (!job->batch_under_way()) {
    return;
  }
  const BatchSnapshot* const held = HeldSnapshot(job->state());
  std::optional<BatchEnd> end;
  if (held != nullptr && held->has_end()) {
    end = BatchEnd{held->end().reason(), held->end().detail()};
  } else if (!View(*job).IsDurable()) {
    end = BatchOf(*job)->driver().end;  // It was to be held first, which was given up.
  }
  if (end) {
    BatchOf(*job)->driver().end.reset();
    BatchOf(*job)->DriverDone(*end, now);
  }
}

// ---- returning ---------------------------------------------------------------

void BatchControl::OnShardRestarted(JobRecord* job, const ShardChange&, const std::string& text,
                                    absl::Duration now) {
  // Where no minimiser has had this attempt, the shards still have what it begins from.
  if (View(*job).CanReturn() &&
      BatchOf(*job)->driver().taken == job->state().sandblaster().attempt()) {
    ReturnBatch(job, text, now);
  }
}

void BatchControl::Recover(JobRecord* job, absl::Duration now) {
  if (!job->batch_under_way()) {
    return;
  }
  // What the minimiser knew died with its process.
  if (View(*job).CanReturn()) {
    ReturnBatch(job, "the coordinator was started anew", now);
  } else if (!View(*job).IsDurable()) {
    registry_->End(job, FAILED,
                   absl::StrCat("the coordinator died during the batch", View(*job).ResumeHint()),
                   now);
  }
}

void BatchControl::ReturnBatch(JobRecord* job, absl::string_view why, absl::Duration now) {
  CHECK(View(*job).CanReturn());
  // What is under way would hold another iteration on some shards than on others.
  job->checkpoints.Abandon();
  const uint64_t attempt = job->state().sandblaster().attempt() + 1;
  job->Make([&](StateUpdate* update) { update->mutable_batch_returned()->set_attempt(attempt); });
  BatchOf(*job)->driver().end.reset();
  BatchOf(*job)->Return();
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    job->checkpoints.ForgetShard(shard);
    SliceRestore& restore = job->restores[shard];
    restore = {.last_seen = restore.last_seen};
  }
  const BatchSnapshot& held = *HeldSnapshot(job->state());
  const std::string text = absl::StrCat("returns to iteration ", held.minimizer().iterations(),
                                        " (generation ", held.generation(), "): ", why);
  job->AddEvent(now, "batch_returned", "", text);
  Log(absl::StrCat("job ", job->id(), " ", text));
}

}  // namespace monsoon
