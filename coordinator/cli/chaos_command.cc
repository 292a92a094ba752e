#include "coordinator/cli/chaos_command.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/chaos.h"
#include "coordinator/chaos/chaos_runner.h"
#include "coordinator/chaos/cluster_view.h"
#include "coordinator/chaos/cluster_watch.h"
#include "coordinator/chaos/plan_check.h"
#include "coordinator/chaos/task_process.h"
#include "coordinator/cli/chaos_report.h"
#include "coordinator/cli/patience.h"

namespace monsoon {
namespace {

constexpr char kCoordinator[] = "coordinator/0";
// How late news of the cluster, and Ctrl-C's effects on what it waits for, may be seen.
constexpr absl::Duration kLook = absl::Milliseconds(50);

struct ChaosFlags {
  std::string plan;
  std::string job = "latest";
  bool json = false;
  double patience_s = Patience::kDefaultSeconds;
};

absl::StatusOr<ClusterView> Ask(JobClient* client, const std::string& job,
                                const std::string& coordinator, const Environment& env) {
  const absl::Duration asked_at = env.clock->Now();
  ASSIGN_OR_RETURN(const InfoReply info, client->Info());
  ASSIGN_OR_RETURN(JobDescription description, client->Describe(job));
  return MakeClusterView(asked_at, coordinator, env.host, info, std::move(description));
}

// One run, from the first fault to the report.
class ChaosRun {
 public:
  ChaosRun(const Invocation& call, const ChaosFlags& flags, ChaosPlan plan, ClusterView first,
           TaskProcesses* processes)
      : call_(call),
        env_(call.env()),
        flags_(flags),
        plan_(std::move(plan)),
        processes_(*processes),
        start_(env_.clock->Now()),
        before_(first.job),
        runner_(plan_, start_),
        patience_(call, flags.patience_s) {
    news_.view = std::make_shared<const ClusterView>(std::move(first));
    patience_.Answered();
  }

  // The exit code.
  int Run(ClusterQuestion question) {
    std::unique_ptr<ClusterWatch> watch = env_.watch_cluster(std::move(question));
    while (GoesOn(watch->Newest())) {
      const absl::Duration left = runner_.wake_at() - env_.clock->Now();
      signal_ = env_.wait(std::clamp(left, absl::ZeroDuration(), kLook));
      if (signal_.has_value()) {
        break;
      }
    }
    // Before anything that may block.
    runner_.Cut(env_.clock->Now(), [this](const ChaosStep& step) { return Act(step); });
    held_.clear();
    watch.reset();
    return Report();
  }

 private:
  bool GoesOn(ClusterNews news) {
    if (news.view == nullptr) {
      news.view = news_.view;
    }
    news_ = std::move(news);
    const absl::Status& status = news_.status;
    if (status.ok()) {
      patience_.Answered();
    } else if (absl::IsNotFound(status)) {
      job_is_gone_ = true;
      return false;
    } else if (!runner_.Disturbs(kCoordinator) && !patience_.GoesOn(status)) {
      error_ = status;
      return false;
    }
    runner_.Advance(env_.clock->Now(), *news_.view,
                    [this](const ChaosStep& step) { return Act(step); });
    TellFaults();
    const JobState state = news_.view->job.summary().state();
    if (!error_.ok() || !runner_.failure().empty() || state == FAILED || state == CANCELLED) {
      return false;
    }
    return !runner_.finished() || (plan_.seconds() == 0 && !news_.view->job_has_ended());
  }

  // False: the process is gone, or the run is over (error_).
  bool Act(const ChaosStep& step) {
    if (step.begins) {
      absl::StatusOr<std::unique_ptr<TaskProcess>> process = processes_.Open(step.task);
      if (!process.ok()) {
        // While the coordinator is away its last word may be out of date.
        return news_.status.ok() && Took(process.status());
      }
      held_[step.task.name] = *std::move(process);
    }
    TaskProcess& process = *held_.at(step.task.name);
    switch (step.act) {
      case ChaosStep::Act::kKill:
        return Took(process.Kill());
      case ChaosStep::Act::kTerminate:
        return Took(process.Terminate());
      case ChaosStep::Act::kStop:
        return Took(process.Stop());
      case ChaosStep::Act::kContinue:
        return Took(process.Continue());
    }
    return false;
  }

  bool Took(const absl::Status& status) {
    if (!status.ok() && !absl::IsNotFound(status)) {
      error_ = status;
    }
    return status.ok();
  }

  void TellFaults() {
    const std::vector<FaultRecord>& faults = runner_.faults();
    for (size_t i = 0; i < faults.size(); ++i) {
      if (i == told_.size()) {
        call_.Note(FaultBegunLine(faults[i]));
        told_.push_back(false);
      }
      if (faults[i].over && !told_[i]) {
        call_.Note(FaultOverLine(faults[i], env_.clock->Now() - start_));
        told_[i] = true;
      }
    }
  }

  // Why the run did not end as planned; OK: it did. Sets the exit code.
  std::string Outcome(int* code) const {
    const JobSummary& job = news_.view->job.summary();
    if (signal_.has_value()) {
      *code = 128 + *signal_;
      return "interrupted; whatever it had stopped goes on";
    }
    if (!error_.ok()) {
      *code = ExitCodeOf(error_);
      return std::string(error_.message());
    }
    if (job_is_gone_) {
      *code = kExitJobFailed;
      return absl::StrCat(job.job(), " is gone: ", news_.status.message());
    }
    if (job.state() == FAILED || job.state() == CANCELLED) {
      *code = ExitCodeOf(job);
      return absl::StrCat(job.job(), job.state() == FAILED ? " failed" : " was cancelled",
                          job.reason().empty() ? "" : ": ", job.reason());
    }
    *code = kExitTimeout;
    if (!runner_.failure().empty()) {
      return runner_.failure();
    }
    if (!runner_.complete()) {
      const std::string end = news_.view->job_has_ended() ? absl::StrCat(job.job(), " ended")
                                                          : "the plan's time was over";
      return absl::StrCat("not all faults of the plan were done before ", end);
    }
    *code = kExitOk;
    return "";
  }

  int Report() {
    int code = kExitOk;
    const ChaosReport report{.before = before_,
                             .after = news_.view->job,
                             .seed = plan_.seed(),
                             .elapsed = env_.clock->Now() - start_,
                             .faults = runner_.faults(),
                             .planned = runner_.planned(),
                             .error = Outcome(&code)};
    if (flags_.json) {
      call_.Print(ChaosReportJson(report));
    } else {
      *env_.out << ChaosReportText(report) << std::flush;
    }
    if (!report.error.empty()) {
      *env_.err << env_.program << " chaos: " << report.error << "\n";
    }
    return code;
  }

  const Invocation& call_;
  const Environment& env_;
  const ChaosFlags& flags_;
  const ChaosPlan plan_;
  TaskProcesses& processes_;
  const absl::Duration start_;
  const JobDescription before_;
  ChaosRunner runner_;
  Patience patience_;
  ClusterNews news_;
  // Of the tasks that were signalled; what was stopped goes on when it is dropped.
  std::map<std::string, std::unique_ptr<TaskProcess>> held_;
  std::vector<bool> told_;  // of each fault: that it is over
  absl::Status error_;
  bool job_is_gone_ = false;
  std::optional<int> signal_;
};

// Before the first fault: whether the plan's tasks are what the coordinator says.
absl::Status CheckProcesses(const ChaosPlan& plan, const ClusterView& view,
                            TaskProcesses* processes) {
  for (const TaskView& task : TasksOfPlan(plan, view)) {
    const absl::Status status = task.up() ? processes->Open(task).status() : absl::OkStatus();
    if (!status.ok() && !absl::IsNotFound(status)) {
      return status;
    }
  }
  return absl::OkStatus();
}

int Start(const Invocation& call, const ClusterFlag& cluster_flag, const ChaosFlags& flags) {
  const Environment& env = call.env();
  absl::StatusOr<ChaosPlan> plan = LoadChaosPlan(flags.plan);
  if (!plan.ok()) {
    return call.Fail(plan.status());
  }
  // It forks, so it comes before the client's threads.
  const absl::StatusOr<std::unique_ptr<TaskProcesses>> processes = env.task_processes();
  if (!processes.ok()) {
    return call.Fail(processes.status());
  }
  const absl::StatusOr<LoadedCluster> cluster = cluster_flag.Load();
  if (!cluster.ok()) {
    return call.Fail(cluster.status());
  }
  const absl::StatusOr<std::unique_ptr<JobClient>> client = cluster_flag.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  const std::string& address = cluster->cluster.coordinator().address();
  absl::StatusOr<ClusterView> first = Ask(client->get(), flags.job, address, env);
  if (!first.ok()) {
    return call.Fail(first.status());
  }
  std::vector<std::string> notes;
  if (const absl::Status fits = CheckPlanOnCluster(*plan, *first, &notes); !fits.ok()) {
    return call.Fail(Annotate(fits, flags.plan));
  }
  if (const absl::Status fits = CheckProcesses(*plan, *first, processes->get()); !fits.ok()) {
    return call.Fail(Annotate(fits, flags.plan));
  }
  for (const std::string& note : notes) {
    call.Note(note);
  }
  env.wait(absl::ZeroDuration());  // from here on Ctrl-C has its own exit code
  // "latest" is resolved once.
  const std::string job = first->job.summary().job();
  ChaosRun run(call, flags, *std::move(plan), *std::move(first), processes->get());
  return run.Run([&, job] { return Ask(client->get(), job, address, env); });
}

}  // namespace

int RunChaos(Invocation& call) {
  ChaosFlags flags;
  const ClusterFlag cluster(&call);
  call.flags().Add("plan", &flags.plan, "the faults, as proto/chaos.proto says");
  call.flags().Add("job", &flags.job, "the job that is disturbed and reported on");
  call.flags().Add("json", &flags.json, "the report as one JSON object on the standard output");
  AddPatienceFlag(&call, &flags.patience_s);
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  if (flags.plan.empty()) {
    return call.Usage("--plan=FILE is missing");
  }
  return Start(call, cluster, flags);
}

}  // namespace monsoon
