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

bool IsUnderWay(const JobRecord& job) {
  return job.stage() == JOB_ACTIVE && job.sandblaster() != nullptr && !job.sandblaster()->trained();
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
  job->BeginSandblaster(BatchOptionsOf(*job));
  if (job->downpour() == nullptr) {
    TellOfResume(job, "its parameters alone", now);
  } else {
    for (const uint32_t worker : job->downpour()->replicas()) {
      job->sandblaster()->AddReplica(worker, now);
    }
    job->AddEvent(now, "sandblaster", "", "goes on from the parameters of Downpour SGD");
  }
  if (IsDurable(*job)) {
    job->checkpoints.Request(/*over=*/false, "the batch begins");
  }
}

JobRecord* CoordinatorCore::RunningBatch(const BatchKey& batch) const {
  JobRecord* const job = ActiveOfQueue();
  const bool runs = job != nullptr && job->id() == batch.job && IsUnderWay(*job) &&
                    job->state().sandblaster().attempt() == batch.attempt && !job->batch_end;
  return runs ? job : nullptr;
}

CheckpointSchedule::Activity CoordinatorCore::BatchActivity(const JobRecord& job) const {
  const BatchSnapshot* const held = HeldSnapshot(job.state());
  // Before it begins, and at its end; what it goes on from is held already.
  const bool still = held == nullptr || job.batch_end;
  return still ? CheckpointSchedule::Activity::kStill : CheckpointSchedule::Activity::kBusy;
}

void CoordinatorCore::OrderBatchCheckpoint(JobRecord* job, const MinimizerStateFunction& state,
                                           CheckpointContext context, absl::Duration now) {
  BatchSnapshot snapshot;
  if (state) {
    *snapshot.mutable_minimizer() = state();
    for (std::string& name : VectorsOf(snapshot.minimizer())) {
      context.add_vector(std::move(name));
    }
  } else if (job->batch_end) {
    snapshot.mutable_end()->set_reason(job->batch_end->reason);
    snapshot.mutable_end()->set_detail(job->batch_end->detail);
  } else {
    snapshot.set_start(true);
  }
  job->checkpoints.Order(std::move(context), /*at_end=*/false, now);
  snapshot.set_generation(job->checkpoints.state().ordered());
  job->Make([&](StateUpdate* update) { *update->mutable_batch_snapshot() = std::move(snapshot); });
}

std::optional<BatchTask> CoordinatorCore::TakeBatch() {
  JobRecord* const job = ActiveOfQueue();
  if (job == nullptr || job->batch_driver || job->batch_end || !IsUnderWay(*job)) {
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
  job->batch_driver = true;
  job->batch_taken = state.attempt();
  BatchTask task;
  task.batch = {job->id(), state.attempt()};
  task.job_term = job->state().term();
  task.term = term();
  task.config = job->plan.job;
  task.shard_epochs.assign(job->state().shard_epoch().begin(), job->state().shard_epoch().end());
  task.contributions = job->sandblaster()->contributions(false);
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
  job->sandblaster()->StartEvaluation(evaluation, w, probe, moment.now);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BatchResult>> CoordinatorCore::FinishedEvaluation(
    const BatchKey& batch) {
  JobRecord* const job = RunningBatch(batch);
  if (job == nullptr) {
    return Ended(batch);
  }
  const auto result = job->sandblaster()->FinishedEvaluation();
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
  job->sandblaster()->NoteFigures(figures);
  job->sandblaster()->NoteIteration(iteration, moment.now);
  OrderCheckpoint(job, CheckpointSchedule::Activity::kBatch, moment, state);
  return !job->sandblaster()->target_reached();
}

void CoordinatorCore::EndBatch(const BatchKey& batch, const absl::StatusOr<BatchEnd>& end,
                               Moment moment) {
  if (JobRecord* const known = jobs_.Lookup(batch.job)) {
    known->batch_driver = false;
  }
  JobRecord* const job = RunningBatch(batch);
  if (job != nullptr && end.ok()) {
    if (IsDurable(*job)) {
      job->batch_end = *end;
      job->checkpoints.Request(/*over=*/false, "the batch has ended");
    } else {
      job->sandblaster()->DriverDone(*end, moment.now);
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
  if (!IsUnderWay(*job)) {
    return;
  }
  const BatchSnapshot* const held = HeldSnapshot(job->state());
  std::optional<BatchEnd> end;
  if (held != nullptr && held->has_end()) {
    end = BatchEnd{held->end().reason(), held->end().detail()};
  } else if (!IsDurable(*job)) {
    end = job->batch_end;  // It was to be held first, which was given up.
  }
  if (end) {
    job->batch_end.reset();
    job->sandblaster()->DriverDone(*end, now);
  }
}

bool CoordinatorCore::BatchWaitsForDisk(const JobRecord& job) const {
  return IsUnderWay(job) && job.checkpoints.under_way();
}

// ---- returning ---------------------------------------------------------------

bool CoordinatorCore::CanReturn(const JobRecord& job) const {
  const BatchSnapshot* const held = HeldSnapshot(job.state());
  return IsUnderWay(job) && held != nullptr && !held->has_end() && IsDurable(job);
}

void CoordinatorCore::ReturnIfBegun(JobRecord* job, absl::string_view why, absl::Duration now) {
  // Where no minimiser has had this attempt, the shards still have what it begins from.
  const bool begun = job->batch_taken == job->state().sandblaster().attempt();
  if (CanReturn(*job) && begun) {
    ReturnBatch(job, why, now);
  }
}

void CoordinatorCore::ReturnBatch(JobRecord* job, absl::string_view why, absl::Duration now) {
  CHECK(CanReturn(*job));
  // What is under way would hold another iteration on some shards than on others.
  job->checkpoints.Abandon();
  const uint64_t attempt = job->state().sandblaster().attempt() + 1;
  job->Make([&](StateUpdate* update) { update->mutable_batch_returned()->set_attempt(attempt); });
  job->batch_end.reset();
  job->sandblaster()->Return();
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
