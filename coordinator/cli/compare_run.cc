#include "coordinator/cli/compare_run.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/base/unsent.h"

namespace monsoon {
namespace {

// Between two looks at a job.
constexpr absl::Duration kLook = absl::Milliseconds(100);
// Between two points of a curve of losses that are seen, not told.
constexpr double kCurveS = 0.5;
// `up` starts what has died again after a second; a worker that is given up never comes.
constexpr absl::Duration kBackWithin = absl::Seconds(60);
// A task that has lived for so long has not died in a row with its last death (a second above
// RestartBackoff::kHealthyService):
// `up` would let it wait longer each time, and that is no cost of the mode.
constexpr absl::Duration kHealthyLife = absl::Seconds(11);
// A reason to wait that lasts so long is worth a word.
constexpr absl::Duration kUntold = absl::Seconds(2);
// A cluster may just have been started.
constexpr absl::Duration kUpWithin = absl::Seconds(10);
// After Ctrl-C, until the job has ended.
constexpr absl::Duration kCancelWithin = absl::Seconds(10);

bool IsUnderWay(JobState state) { return state == WARMSTART || state == RUNNING; }

// What workers have found wrong in the data files, a line each.
std::string DataErrors(const SubmitReply& reply) {
  std::string text;
  for (const DataFinding& finding : reply.data_error()) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", finding.field(), ": ", finding.message(),
                    finding.suggestion().empty() ? "" : "; ", finding.suggestion());
  }
  return text;
}

}  // namespace

std::string JobOutcome::state() const {
  return lost ? "LOST" : JobState_Name(last.summary().state());
}

std::string JobOutcome::reason() const {
  return lost ? "the coordinator does not know it any more" : last.summary().reason();
}

ComparedJobs::ComparedJobs(const Invocation& call, JobClient* client, std::string coordinator,
                           TaskProcesses* processes, double patience_s,
                           std::function<bool()> comes_back, bool keep)
    : call_(call),
      env_(call.env()),
      client_(*client),
      coordinator_(std::move(coordinator)),
      processes_(processes),
      patience_(call, patience_s, std::move(comes_back)),
      keep_(keep) {}

bool ComparedJobs::Wait(absl::Duration time) {
  if (const std::optional<int> signal = env_.wait(time)) {
    signal_ = signal;
  }
  return !signal_.has_value();
}

absl::StatusOr<ClusterView> ComparedJobs::View() {
  const absl::Duration asked_at = env_.clock->Now();
  ASSIGN_OR_RETURN(const InfoReply info, client_.Info());
  patience_.Answered();
  return MakeClusterView(asked_at, coordinator_, env_.host, info, JobDescription());
}

absl::Status ComparedJobs::Reach() {
  absl::Status status = View().status();
  while (!status.ok() && patience_.GoesOn(status) && Wait(Patience::kPause)) {
    status = View().status();
  }
  return status;
}

absl::Status ComparedJobs::CheckDeath(const std::string& task) {
  const absl::Duration deadline = env_.clock->Now() + kUpWithin;
  while (true) {
    ASSIGN_OR_RETURN(const ClusterView view, View());
    const TaskView* const found = view.Find(task);
    if (found == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("--kill: the cluster has no task ", task));
    }
    if (!found->elsewhere.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--kill: ", task, " is no task of this machine: ", found->elsewhere));
    }
    if (found->up()) {
      return Annotate(processes_->Open(*found).status(), "--kill");
    }
    if (env_.clock->Now() >= deadline || !Wait(kLook)) {
      return absl::FailedPreconditionError(absl::StrCat("--kill: ", task, " is ", found->state,
                                                        "; `", env_.program,
                                                        " tasks` has to show it UP"));
    }
  }
}

absl::StatusOr<std::string> ComparedJobs::Submit(const Job& job) {
  SubmitRequest request;
  *request.mutable_job() = job;
  request.set_client_id(env_.draw_id());
  absl::StatusOr<SubmitReply> reply = client_.Submit(request);
  if (!IsUnsent(reply.status())) {
    patience_.Answered();  // Somebody may have heard it.
  }
  while (!reply.ok() && patience_.GoesOn(reply.status()) && Wait(Patience::kPause)) {
    reply = client_.Submit(request);
  }
  RETURN_IF_ERROR(reply.status());
  patience_.Answered();
  if (const std::string errors = DataErrors(*reply); !errors.empty()) {
    return absl::InvalidArgumentError(errors);
  }
  return reply->job();
}

// Why it waits: once, as long as that stays.
void ComparedJobs::TellReason(const JobSummary& summary) {
  const absl::Duration now = env_.clock->Now();
  if (summary.reason() != reason_) {
    reason_ = summary.reason();
    reason_since_ = now;
    told_ = false;
  }
  if (!told_ && !reason_.empty() && now - reason_since_ >= kUntold) {
    call_.Note(absl::StrCat(summary.job(), ": ", reason_));
    told_ = true;
  }
}

absl::StatusOr<bool> ComparedJobs::Look(JobOutcome* outcome) {
  absl::StatusOr<JobDescription> description = client_.Describe(outcome->job);
  if (absl::IsNotFound(description.status())) {
    outcome->lost = true;
    return false;
  }
  if (!description.ok()) {
    return patience_.GoesOn(description.status()) ? absl::StatusOr<bool>(true)
                                                  : description.status();
  }
  patience_.Answered();
  outcome->last = *std::move(description);
  const JobSummary& summary = outcome->last.summary();
  TellReason(summary);
  const JobDescription::Progress& progress = outcome->last.progress();
  std::vector<CurvePoint>& losses = outcome->losses;
  if (IsUnderWay(summary.state()) && progress.has_loss() &&
      (losses.empty() || summary.elapsed_s() >= losses.back().elapsed_s + kCurveS)) {
    losses.push_back({summary.elapsed_s(), progress.loss()});
  }
  return !HasEnded(summary.state());
}

// A process that is gone by itself, or not there yet, is asked for again at the next look.
absl::Status ComparedJobs::Kill(const std::string& task, JobOutcome* outcome) {
  const absl::StatusOr<ClusterView> view = View();
  const TaskView* const found = view.ok() ? view->Find(task) : nullptr;
  if (found == nullptr || !found->up()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<TaskProcess>> process = processes_->Open(*found);
  const absl::Status killed = process.ok() ? (*process)->Kill() : process.status();
  if (absl::IsNotFound(killed)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(killed);
  killed_at_ = env_.clock->Now();
  outcome->killed_at_s = outcome->last.summary().elapsed_s();
  outcome->killed_pid = found->pid;
  call_.Note(absl::StrFormat("KILL %s (pid %d) at %.1f s of %s", task, found->pid,
                             *outcome->killed_at_s, outcome->job));
  return absl::OkStatus();
}

void ComparedJobs::LookForReturn(const std::string& task, JobOutcome* outcome) {
  const absl::StatusOr<ClusterView> view = View();
  const TaskView* const found = view.ok() ? view->Find(task) : nullptr;
  if (found != nullptr && found->up() && found->pid != outcome->killed_pid) {
    back_at_ = env_.clock->Now();
    outcome->back_after_s = absl::ToDoubleSeconds(*back_at_ - killed_at_);
  }
}

void ComparedJobs::AwaitHealth(const std::string& task) {
  const absl::Duration left =
      back_at_.has_value() ? *back_at_ + kHealthyLife - env_.clock->Now() : absl::ZeroDuration();
  if (left <= absl::ZeroDuration()) {
    return;
  }
  call_.Note(absl::StrFormat("waits for %.0f s, so that `up` starts %s again as soon as before",
                             absl::ToDoubleSeconds(left), task));
  for (const absl::Duration until = env_.clock->Now() + left;
       env_.clock->Now() < until && Wait(kLook);) {
  }
}

absl::Status ComparedJobs::AwaitReturn(const std::string& task, JobOutcome* outcome) {
  while (!outcome->back_after_s.has_value()) {
    LookForReturn(task, outcome);
    if (outcome->back_after_s.has_value()) {
      break;
    }
    if (env_.clock->Now() - killed_at_ >= kBackWithin) {
      return absl::DeadlineExceededError(absl::StrCat(
          task, " was killed and is not back after ", absl::FormatDuration(kBackWithin), "; does `",
          env_.program, " up` start it again (--restart)?"));
    }
    if (!Wait(kLook)) {
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status ComparedJobs::Watch(const std::optional<PlannedDeath>& death, JobOutcome* outcome) {
  while (true) {
    const absl::StatusOr<bool> goes_on = Look(outcome);
    RETURN_IF_ERROR(goes_on.status());
    if (!*goes_on) {
      break;
    }
    const JobSummary& summary = outcome->last.summary();
    const bool due =
        death.has_value() && IsUnderWay(summary.state()) && summary.percent() >= 100 * death->share;
    if (due && !outcome->killed_at_s.has_value()) {
      RETURN_IF_ERROR(Kill(death->task, outcome));
    } else if (outcome->killed_at_s.has_value() && !outcome->back_after_s.has_value()) {
      LookForReturn(death->task, outcome);
    }
    if (!Wait(kLook)) {
      return absl::OkStatus();
    }
  }
  return outcome->killed_at_s.has_value() ? AwaitReturn(death->task, outcome) : absl::OkStatus();
}

// Best effort: whoever pressed Ctrl-C does not want to wait.
void ComparedJobs::Cancel(JobOutcome* outcome) {
  absl::Status status = client_.Cancel(outcome->job).status();
  const absl::Duration deadline = env_.clock->Now() + kCancelWithin;
  while (env_.clock->Now() < deadline) {
    const absl::StatusOr<JobDescription> description = client_.Describe(outcome->job);
    if (description.ok()) {
      outcome->last = *description;
    }
    if (absl::IsNotFound(description.status()) || HasEnded(outcome->last.summary().state())) {
      return;
    }
    if (!status.ok()) {
      status = client_.Cancel(outcome->job).status();
    }
    if (env_.wait(kLook).has_value()) {
      break;
    }
  }
  call_.Note(absl::StrCat(outcome->job, " has not ended yet",
                          status.ok() ? "" : ", and could not be cancelled: ", status.message(),
                          "; see: ", call_.CommandLine(absl::StrCat("describe ", outcome->job))));
}

void ComparedJobs::Delete(const std::string& job) {
  absl::Status status = client_.Delete(job).status();
  while (!status.ok() && !signal_.has_value() && patience_.GoesOn(status) &&
         Wait(Patience::kPause)) {
    status = client_.Delete(job).status();
  }
  if (!status.ok() && !absl::IsNotFound(status)) {
    call_.Note(absl::StrCat(job, " was not deleted: ", status.message()));
  }
}

absl::StatusOr<JobOutcome> ComparedJobs::Run(const Job& job,
                                             const std::optional<PlannedDeath>& death) {
  JobOutcome outcome;
  reason_.clear();
  if (death.has_value()) {
    AwaitHealth(death->task);
  }
  if (!Wait(absl::ZeroDuration())) {
    return outcome;
  }
  ASSIGN_OR_RETURN(outcome.job, Submit(job));
  const absl::Status status = Watch(death, &outcome);
  const bool goes_on = !outcome.lost && !HasEnded(outcome.last.summary().state());
  if (goes_on && (status.ok() || ExitCodeOf(status) != kExitUnreachable)) {
    Cancel(&outcome);
  } else if (goes_on) {
    call_.Note(absl::StrCat(outcome.job, " may go on"));
  }
  if (!keep_ && HasEnded(outcome.last.summary().state())) {
    Delete(outcome.job);
  }
  RETURN_IF_ERROR(status);
  return outcome;
}

}  // namespace monsoon
