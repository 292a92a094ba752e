// CoordinatorCore: batch jobs and their minimiser, and how a batch returns to an earlier
// iteration when what its minimiser knew, or a shard had, is gone.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {
namespace {

absl::Status Ended(const BatchKey& batch) {
  return absl::CancelledError(absl::StrCat("job ", batch.job, " has ended, or has returned"));
}

}  // namespace

SandblasterOptions CoordinatorCore::BatchOptionsOf(const JobRecord& job) const {
  absl::StatusOr<SandblasterOptions> options =
      SandblasterOptions::FromJob(job.plan.job, job.plan.examples, job.plan.replicas);
  CHECK_OK(options.status());  // JobPlan::Make has judged it.
  options->keep_best = BestOf(job);
  return *std::move(options);
}

void CoordinatorCore::BeginBatch(JobRecord* job, absl::Duration now) {
  const JobProcedure* const before = job->procedure();
  BeginSandblaster(BatchOptionsOf(*job), job);
  if (before == nullptr) {
    TellOfResume(job, "its parameters alone", now);
  } else {
    for (const uint32_t worker : before->replicas()) {
      job->procedure()->AddReplica(worker, now);
    }
    job->AddEvent(now, "sandblaster", "", "goes on from the parameters of Downpour SGD");
  }
  if (IsDurable(*job)) {
    job->checkpoints.Request(/*over=*/false, "the batch begins");
  }
}

JobRecord* CoordinatorCore::RunningBatch(const BatchKey& batch) const {
  JobRecord* const job = ActiveOfQueue();
  const bool runs = job != nullptr && job->id() == batch.job && job->batch_under_way() &&
                    job->state().sandblaster().attempt() == batch.attempt &&
                    !BatchOf(*job)->driver().end;
  return runs ? job : nullptr;
}

std::optional<BatchTask> CoordinatorCore::TakeBatch() {
  JobRecord* const job = ActiveOfQueue();
  SandblasterJob* const procedure =
      job != nullptr && job->batch_under_way() ? BatchOf(*job) : nullptr;
  if (procedure == nullptr || procedure->driver().there || procedure->driver().end) {
    return std::nullopt;
  }
  const BatchSnapshot* const held = HeldSnapshot(job->state());
  if (IsDurable(*job)) {
    const bool ready = held != nullptr && !held->has_end() && !job->checkpoints.under_way();
    if (!ready || AwaitsShard(*job)) {
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

bool CoordinatorCore::BatchWaits(const BatchKey& batch) const {
  const JobRecord* const job = RunningBatch(batch);
  return job != nullptr && job->checkpoints.under_way();
}

absl::Status CoordinatorCore::StartEvaluation(const BatchKey& batch, uint64_t evaluation,
                                              const std::string& w, bool probe, Moment moment) {
  JobRecord* const job = RunningBatch(batch);
  if (job == nullptr) {
    return Ended(batch);
  }
  BatchOf(*job)->StartEvaluation(evaluation, w, probe, moment.now);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BatchResult>> CoordinatorCore::FinishedEvaluation(
    const BatchKey& batch) {
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

absl::StatusOr<bool> CoordinatorCore::NoteIteration(const BatchKey& batch,
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
  OrderCheckpoint(job, CheckpointSchedule::Activity::kBatch, moment, state);
  return !BatchOf(*job)->target_reached();
}

void CoordinatorCore::EndBatch(const BatchKey& batch, const absl::StatusOr<BatchEnd>& end,
                               Moment moment) {
  if (JobRecord* const known = jobs_.Lookup(batch.job)) {
    if (SandblasterJob* const procedure = BatchOf(*known)) {
      procedure->driver().there = false;
    }
  }
  JobRecord* const job = RunningBatch(batch);
  if (job != nullptr && end.ok()) {
    if (IsDurable(*job)) {
      BatchOf(*job)->driver().end = *end;
      job->checkpoints.Request(/*over=*/false, "the batch has ended");
    } else {
      BatchOf(*job)->DriverDone(*end, moment.now);
    }
  } else if (job != nullptr && absl::IsAborted(end.status()) && CanReturn(*job)) {
    // A shard was started anew, as the next poll will tell.
    ReturnBatch(job, end.status().message(), moment.now);
  } else if (job != nullptr && !absl::IsCancelled(end.status())) {
    End(job, FAILED, absl::StrCat("sandblaster: ", end.status().message()), moment.now);
  }  // Cancelled while it runs: the coordinator stops, and its next life goes on.
  Advance(moment.now);
  AdvanceCheckpoints(moment);
}

void CoordinatorCore::FinishBatch(JobRecord* job, absl::Duration now) {
  if (!job->batch_under_way()) {
    return;
  }
  const BatchSnapshot* const held = HeldSnapshot(job->state());
  std::optional<BatchEnd> end;
  if (held != nullptr && held->has_end()) {
    end = BatchEnd{held->end().reason(), held->end().detail()};
  } else if (!IsDurable(*job)) {
    end = BatchOf(*job)->driver().end;  // It was to be held first, which was given up.
  }
  if (end) {
    BatchOf(*job)->driver().end.reset();
    BatchOf(*job)->DriverDone(*end, now);
  }
}

bool CoordinatorCore::BatchWaitsForDisk(const JobRecord& job) const {
  return job.batch_under_way() && job.checkpoints.under_way();
}

// ---- returning ---------------------------------------------------------------

bool CoordinatorCore::CanReturn(const JobRecord& job) const {
  const BatchSnapshot* const held = HeldSnapshot(job.state());
  return job.batch_under_way() && held != nullptr && !held->has_end() && IsDurable(job);
}

void CoordinatorCore::ReturnIfBegun(JobRecord* job, absl::string_view why, absl::Duration now) {
  // Where no minimiser has had this attempt, the shards still have what it begins from.
  if (CanReturn(*job) && BatchOf(*job)->driver().taken == job->state().sandblaster().attempt()) {
    ReturnBatch(job, why, now);
  }
}

void CoordinatorCore::ReturnBatch(JobRecord* job, absl::string_view why, absl::Duration now) {
  CHECK(CanReturn(*job));
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
