#include "coordinator/core/job_course.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/downpour/resume.h"
#include "coordinator/job/batch_order.h"
#include "coordinator/job/plateau.h"
#include "coordinator/replicas/replicas.h"
#include "coordinator/synchronous/synchronous_job.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

// What people must know of a job that ends well: that its model guesses, or why it ended early.
std::string SuccessReason(const JobRecord& job) {
  std::string reason;
  for (const JobDescription::Event& event : job.state().event()) {
    if (event.kind() == kAtChance) {
      return event.text();
    }
    if (event.kind() == "finishing") {  // a chain finishes each of its parts
      const bool tells =
          absl::StartsWith(event.text(), kStoppedEarly) || absl::StartsWith(event.text(), kEndedBy);
      reason = tells ? event.text() : "";
    }
  }
  return reason;
}

SynchronousOptions SynchronousOptionsOf(const JobView& view, const JobRecord& job,
                                        const Cluster& cluster, std::string* note) {
  SynchronousOptions options =
      SynchronousOptions::FromJob(job.plan.job, job.plan.examples, job.plan.replicas,
                                  absl::Milliseconds(cluster.lost_after_ms()));
  options.keep_best = view.BestMetric();
  if (job.state().has_resume()) {
    const absl::StatusOr<SynchronousPosition> resumed =
        BatchOrder(options.examples, options.batch_size)
            .Resume(job.state().resume().context(), note);
    CHECK_OK(resumed.status());  // Submit has judged it.
    options.resumed = *resumed;
  }
  return options;
}

}  // namespace

// ---- endings -----------------------------------------------------------------

bool Endings::wants_poll() const {
  return std::ranges::any_of(jobs_.active(), [this](const JobRecord* job) {
    return job->stage() == JOB_ENDING && job->final_round > registry_->poll_round;
  });
}

bool Endings::Advance(JobRecord* job, absl::Duration now) {
  if (job->stage() != JOB_ENDING) {
    return true;
  }
  if (!job->ledger()->empty()) {
    return false;
  }
  if (job->final_round == 0) {
    job->final_round = registry_->poll_round + 1;
  }
  const bool seen = shards_.common_round().value_or(0) >= job->final_round;
  if ((seen || job->end_state() != SUCCEEDED || !shards_.all_up()) &&
      checkpoints_->LastCheckpointIsDone(job, now)) {
    registry_->FinishEnding(job, now);
  }
  return false;
}

// ---- procedures --------------------------------------------------------------

void Procedures::Begin(JobRecord* job, absl::Duration now) {
  CHECK(job->hands_over());
  switch (job->plan.procedures()[job->procedures().size()]) {
    case SANDBLASTER:
      BeginBatch(job, now);
      break;
    case SYNCHRONOUS:
      BeginSynchronous(job, now);
      break;
    default:
      BeginDownpour(job, now);
      break;
  }
}

void Procedures::BeginDownpour(JobRecord* job, absl::Duration now) {
  std::string note;
  DownpourOptions options = DownpourOptionsOf(*job, &note);
  options.keep_best = View(*job).BestMetric();
  monsoon::BeginDownpour(options, job);
  TellOfResume(
      job,
      absl::StrCat(options.resumed.epochs_done(), " epochs and ", options.resumed.blocks_done(),
                   " blocks are done, ", options.resumed.steps(), " steps",
                   note.empty() ? "" : absl::StrCat("; ", note)),
      now);
}

void Procedures::BeginSynchronous(JobRecord* job, absl::Duration now) {
  std::string note;
  const SynchronousOptions options = SynchronousOptionsOf(View(*job), *job, cluster_, &note);
  monsoon::BeginSynchronous(options, job);
  TellOfResume(
      job,
      absl::StrCat(options.resumed.batches(), " batches are done, ", options.resumed.updates(),
                   " updates", note.empty() ? "" : absl::StrCat("; ", note)),
      now);
}

void Procedures::BeginBatch(JobRecord* job, absl::Duration now) {
  const JobProcedure* const before = job->procedure();
  batches_->Begin(job);
  if (before == nullptr) {
    TellOfResume(job, "its parameters alone", now);
  } else {
    job->procedure()->TakeOver(*before, now);
    job->AddEvent(now, "sandblaster", "", "goes on from the parameters of Downpour SGD");
  }
  if (View(*job).IsDurable()) {
    job->checkpoints.Request(/*over=*/false, "the batch begins");
  }
}

void Procedures::TellOfResume(JobRecord* job, const std::string& what, absl::Duration now) {
  if (!job->state().has_resume()) {
    return;
  }
  const std::string text = absl::StrCat("from ", SourceOf(job->state().resume()), ": ", what);
  Log(absl::StrCat("job ", job->id(), " goes on ", text));
  job->AddEvent(now, "resumed", "", text);
}

bool Procedures::Advance(JobRecord* job, absl::Duration now) {
  // A batch whose last point is held is over before time passes for its procedure: the run over
  // the test set begins with it. Events come last, with all that the step has brought about.
  batches_->FinishBatch(job, now);
  job->procedure()->Tick(now);
  for (JobProcedure::JobEvent& event : job->procedure()->TakeEvents()) {
    Log(absl::StrCat("job ", job->id(), " ", event.kind, ": ",
                     event.task.empty() ? "" : event.task + " ", event.text));
    job->AddEvent(now, std::move(event.kind), std::move(event.task), std::move(event.text));
  }
  return true;
}

void Procedures::Recover(JobRecord* job, absl::Duration now) {
  const DurableJob& state = job->state();
  if (state.has_downpour()) {
    std::string note;
    DownpourOptions options = DownpourOptionsOf(*job, &note);
    options.keep_best = View(*job).BestMetric();
    ContinueDownpour(options, job);
  }
  if (state.has_sandblaster()) {
    batches_->Continue(job);
  }
  if (state.has_synchronous()) {
    std::string note;
    ContinueSynchronous(SynchronousOptionsOf(View(*job), *job, cluster_, &note), job);
  }
  if (job->ended_or_deleting()) {
    return;
  }
  const std::string text =
      absl::StrCat("the coordinator was started anew (pid ", registry_->pid, ")");
  if (job->stage() > JOB_QUEUED) {
    job->AddEvent(now, "coordinator_restarted", "coordinator/0", text);
  }
  Log(absl::StrCat("goes on with job ", job->id(), " (", JobState_Name(job->job_state()), ", ",
                   static_cast<int>(100 * job->fraction(now)), " % done)"));
}

// ---- succession --------------------------------------------------------------

bool Succession::Advance(JobRecord* job, absl::Duration now) {
  if (job->procedure()->phase() != JobProcedure::Phase::kDone) {
    return true;
  }
  if (!job->hands_over()) {
    registry_->End(job, SUCCEEDED, SuccessReason(*job), now);
    return false;
  }
  procedures_->Begin(job, now);
  return true;
}

}  // namespace monsoon
