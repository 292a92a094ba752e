// CoordinatorCore: batch jobs and their minimiser.

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {
namespace {

absl::Status Ended(const std::string& job) {
  return absl::CancelledError(absl::StrCat("job ", job, " has ended"));
}

}  // namespace

void CoordinatorCore::BeginBatch(JobRecord* job, absl::Duration now) {
  absl::StatusOr<SandblasterOptions> options =
      SandblasterOptions::FromJob(job->plan.job, job->plan.examples, job->plan.replicas);
  CHECK_OK(options.status());  // JobPlan::Make has judged it.
  job->BeginSandblaster(*options);
  if (job->downpour() == nullptr) {
    TellOfResume(job, "its parameters alone", now);
  } else {
    for (const uint32_t worker : job->downpour()->replicas()) {
      job->sandblaster()->AddReplica(worker, now);
    }
    job->AddEvent(now, "sandblaster", "", "goes on from the parameters of Downpour SGD");
  }
}

JobRecord* CoordinatorCore::RunningBatch(const std::string& job) const {
  const bool runs = active_ != nullptr && active_->id() == job && active_->stage() == JOB_ACTIVE &&
                    active_->sandblaster() != nullptr && !active_->sandblaster()->trained();
  return runs ? active_ : nullptr;
}

std::optional<BatchTask> CoordinatorCore::TakeBatch() {
  if (active_ == nullptr || active_->batch_driver || RunningBatch(active_->id()) == nullptr ||
      BatchWaits(active_->id())) {
    return std::nullopt;
  }
  active_->batch_driver = true;
  BatchTask task;
  task.job = active_->id();
  task.job_term = active_->state().term();
  task.term = term();
  task.config = active_->plan.job;
  task.shard_epochs.assign(active_->state().shard_epoch().begin(),
                           active_->state().shard_epoch().end());
  task.contributions = active_->sandblaster()->contributions(false);
  return task;
}

absl::Status CoordinatorCore::StartEvaluation(const std::string& id, uint64_t evaluation,
                                              const std::string& w, bool probe, Moment moment) {
  JobRecord* const job = RunningBatch(id);
  if (job == nullptr) {
    return Ended(id);
  }
  job->sandblaster()->StartEvaluation(evaluation, w, probe, moment.now);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BatchResult>> CoordinatorCore::FinishedEvaluation(
    const std::string& id) {
  JobRecord* const job = RunningBatch(id);
  if (job == nullptr) {
    return Ended(id);
  }
  const auto result = job->sandblaster()->FinishedEvaluation();
  if (!result) {
    return std::optional<BatchResult>();
  }
  return std::make_optional(BatchResult{result->loss_sum, result->examples, result->finite});
}

absl::StatusOr<bool> CoordinatorCore::NoteIteration(const std::string& id,
                                                    const JobDescription::Iteration& iteration,
                                                    const BatchFigures& figures, Moment moment) {
  JobRecord* const job = RunningBatch(id);
  if (job == nullptr) {
    return Ended(id);
  }
  job->sandblaster()->NoteFigures(figures);
  job->sandblaster()->NoteIteration(iteration, moment.now);
  OrderCheckpoint(job, CheckpointSchedule::Activity::kStill, moment);
  return !job->sandblaster()->target_reached();
}

void CoordinatorCore::EndBatch(const std::string& id, const absl::StatusOr<BatchEnd>& end,
                               Moment moment) {
  if (JobRecord* const known = jobs_.Lookup(id)) {
    known->batch_over = true;
  }
  JobRecord* const job = RunningBatch(id);
  if (job == nullptr) {
    return;
  }
  if (end.ok()) {
    job->sandblaster()->DriverDone(*end, moment.now);
  } else {
    End(job, FAILED, absl::StrCat("sandblaster: ", end.status().message()), moment.now);
  }
  Advance(moment.now);
}

}  // namespace monsoon
