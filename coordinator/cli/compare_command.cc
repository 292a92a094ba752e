#include "coordinator/cli/compare_command.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/storage/storage.h"
#include "coordinator/cli/compare_run.h"
#include "coordinator/cli/patience.h"
#include "coordinator/compare/compare_plan.h"
#include "coordinator/compare/comparison.h"
#include "coordinator/compare/comparison_report.h"
#include "coordinator/compare/comparison_svg.h"
#include "coordinator/compare/rates.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

// All runs of a plan, and the report of those that were made.
class Comparing {
 public:
  Comparing(const Invocation& call, const CompareFlags& flags, ComparePlan plan, ComparedJobs* jobs)
      : call_(call), flags_(flags), plan_(std::move(plan)), jobs_(*jobs) {
    result_.name = plan_.job.name();
    result_.seeds = plan_.seeds;
    result_.to = flags.to > 0 ? std::make_optional(flags.to) : std::nullopt;
    result_.tested = plan_.job.has_test();
    result_.curve_of = !result_.tested                                  ? CurveOf::kTrainingLoss
                       : plan_.job.model().loss() == MEAN_SQUARED_ERROR ? CurveOf::kTestLoss
                                                                        : CurveOf::kTestAccuracy;
    result_.grid_epochs = flags.rates.empty() ? 0 : flags.grid_epochs;
    if (plan_.death.has_value()) {
      result_.kill_task = plan_.death->task;
      result_.kill_share = plan_.death->share;
    }
  }

  // The exit code.
  int Run() {
    if (!Write()) {
      return kExitData;
    }
    result_.complete = true;
    for (const ComparedMode& mode : plan_.modes) {
      if (!RunMode(mode)) {
        result_.complete = false;
        break;
      }
    }
    const bool written = Write();
    if (flags_.json) {
      call_.Print(ComparisonJson(result_));
    } else {
      *call_.env().out << ComparisonText(result_) << std::flush;
    }
    const int code = ExitCode();
    return written || code != kExitOk ? code : kExitData;
  }

 private:
  int ExitCode() const {
    if (jobs_.signal().has_value()) {
      call_.Note("interrupted: the running job was cancelled");
      return 128 + *jobs_.signal();
    }
    if (!status_.ok()) {
      const int code = call_.Fail(status_);
      // A task that is not back; of calls the message says whom they have not reached.
      return absl::IsDeadlineExceeded(status_) && !WasNotReached(status_) ? kExitTimeout : code;
    }
    return failed_;
  }

  // compare.json and compare.svg as they are now. False: they could not be written, which it says.
  bool Write() {
    if (flags_.out.empty()) {
      return true;
    }
    Storage& storage = *OutputStorage();
    absl::Status status = storage.MakeFolder(flags_.out);
    if (status.ok()) {
      status = storage.WriteAll(absl::StrCat(flags_.out, "/compare.json"),
                                absl::StrCat(ComparisonJson(result_), "\n"));
    }
    if (status.ok()) {
      status = storage.WriteAll(absl::StrCat(flags_.out, "/compare.svg"), ComparisonSvg(result_));
    }
    if (!status.ok()) {
      call_.Note(absl::StrCat("--out: ", status.message()));
    }
    return status.ok();
  }

  // False, here and below: nothing goes on; there is a signal or an error.
  bool RunMode(const ComparedMode& mode) {
    result_.modes.push_back(
        {.mode = mode.mode.text, .summary = mode.mode.mode->summary, .notes = mode.notes});
    Job job = mode.job;
    if (!RunGrid(mode)) {
      return false;
    }
    if (!mode.grid.empty()) {
      const std::optional<double> best = BestRate(result_.modes.back().grid);
      if (!best.has_value()) {
        failed_ = failed_ == kExitOk ? kExitJobFailed : failed_;
        return true;  // There is nothing to compare; the report says why.
      }
      SetRate(*best, &job);
    }
    result_.modes.back().rate = RateOf(job);
    for (const uint64_t seed : plan_.seeds) {
      job.set_seed(seed);
      if (!RunSeed(mode, job)) {
        return false;
      }
    }
    return true;
  }

  bool RunGrid(const ComparedMode& mode) {
    for (size_t i = 0; i < mode.grid.size(); ++i) {
      GridResult result{.rate = mode.rates[i]};
      const std::optional<JobOutcome> outcome =
          RunOne(mode, mode.grid[i], absl::StrCat("rate", i + 1), std::nullopt);
      if (outcome.has_value()) {
        result.job = outcome->job;
        result.state = outcome->state();
        result.reason = outcome->reason();
        result.figures = FiguresOf(mode.grid[i], outcome->last, result_.to);
        result_.modes.back().grid.push_back(std::move(result));
      }
      if (!GoesOn(outcome)) {
        return false;
      }
    }
    return true;
  }

  bool RunSeed(const ComparedMode& mode, const Job& job) {
    const std::string seed = absl::StrCat("s", job.seed());
    const std::optional<JobOutcome> outcome = RunOne(mode, job, seed, std::nullopt);
    if (outcome.has_value()) {
      RunResult run{.seed = job.seed(),
                    .job = outcome->job,
                    .state = outcome->state(),
                    .reason = outcome->reason(),
                    .figures = FiguresOf(job, outcome->last, result_.to)};
      run.curve = result_.curve_of == CurveOf::kTrainingLoss
                      ? outcome->losses
                      : CurveFrom(outcome->last, result_.curve_of);
      result_.modes.back().runs.push_back(std::move(run));
      NoteFailure(*outcome);
    }
    if (!GoesOn(outcome)) {
      return false;
    }
    return !mode.dies || RunDeath(mode, job, absl::StrCat(seed, "-killed"), outcome->last);
  }

  bool RunDeath(const ComparedMode& mode, const Job& job, const std::string& suffix,
                const JobDescription& without) {
    const std::optional<JobOutcome> outcome = RunOne(mode, job, suffix, plan_.death);
    if (outcome.has_value()) {
      RunResult& run = result_.modes.back().runs.back();
      run.death = DeathResult{.job = outcome->job,
                              .state = outcome->state(),
                              .reason = outcome->reason(),
                              .at_s = outcome->killed_at_s,
                              .pid = outcome->killed_pid,
                              .back_after_s = outcome->back_after_s,
                              .figures = FiguresOf(job, outcome->last, result_.to)};
      TakeDeath(without, outcome->last, *run.death, &run.figures);
      NoteFailure(*outcome);
    }
    return GoesOn(outcome);
  }

  bool GoesOn(const std::optional<JobOutcome>& outcome) {
    Write();  // What cannot be written now may be at the end; the table is printed in any case.
    return outcome.has_value() && !jobs_.signal().has_value() && status_.ok();
  }

  // The first one is the exit code.
  void NoteFailure(const JobOutcome& outcome) {
    if (failed_ == kExitOk && !jobs_.signal().has_value()) {
      failed_ = outcome.lost ? kExitJobFailed : ExitCodeOf(outcome.last.summary());
    }
  }

  // Nothing where the job was not made.
  std::optional<JobOutcome> RunOne(const ComparedMode& mode, Job job, const std::string& suffix,
                                   const std::optional<PlannedDeath>& death) {
    job.set_name(ComparedName(plan_.job.name(), mode.mode, suffix));
    ++begun_;
    call_.Note(absl::StrCat("run ", begun_, " of ", plan_.runs(), ": ", job.name()));
    absl::StatusOr<JobOutcome> outcome = jobs_.Run(job, death);
    if (!outcome.ok()) {
      status_ = outcome.status();
      return std::nullopt;
    }
    if (outcome->job.empty()) {
      return std::nullopt;
    }
    const RunFigures figures = FiguresOf(job, outcome->last, result_.to);
    const std::optional<double> accuracy = figures.final_test_accuracy;
    call_.Note(absl::StrCat(outcome->job, " ", outcome->state(),
                            outcome->reason().empty() ? "" : ": ", outcome->reason(),
                            absl::StrFormat(", %.1f s", figures.elapsed_s.value_or(0)),
                            accuracy ? absl::StrFormat(", accuracy %.4f", *accuracy) : ""));
    return *std::move(outcome);
  }

  const Invocation& call_;
  const CompareFlags& flags_;
  const ComparePlan plan_;
  ComparedJobs& jobs_;
  Comparison result_;
  size_t begun_ = 0;
  absl::Status status_;
  int failed_ = kExitOk;
};

// Each line behind the command's name.
int Refuse(const Invocation& call, const absl::Status& status) {
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    *call.env().err << call.name() << ": " << std::string(line) << "\n";
  }
  return kExitUsage;
}

void AddFlags(Invocation* call, CompareFlags* flags) {
  constexpr char kIndent[] = "        ";
  FlagSet& set = call->flags();
  set.Add("modes", &flags->modes,
          absl::StrCat("the modes, with commas between them:", ModesHelp(kIndent)));
  set.Add("seeds", &flags->seeds, "runs of each mode, with the job's seed and the next ones");
  set.Add("to", &flags->to, "a test accuracy: when did each run reach it");
  set.Add("rates", &flags->rates,
          "learning rates: each mode is tried with each, shortly, and runs with the best");
  set.Add("grid_epochs", &flags->grid_epochs, "epochs of each such try");
  set.Add("kill", &flags->kill,
          "TASK@SHARE: each run once more, in which that task of this machine is killed when that "
          "share of the job is done; `up` has to start it again");
  set.Add("out", &flags->out, "the folder for compare.json and compare.svg");
  set.Add("set", &flags->set, "PATH=VALUE changes a field of the job; may be repeated");
  set.Add("keep", &flags->keep, "do not delete the jobs at their ends");
  AddPatienceFlag(call, &flags->patience_s);
  set.Add("json", &flags->json, "compare.json on the standard output, in place of the table");
}

// Whether somebody will start a task that was killed.
absl::Status CheckRestarts(const Invocation& call, const ClusterFlag& cluster) {
  return cluster.UpRunsCoordinator()
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "--kill: no `up` that keeps this cluster's state runs on this machine, so that "
                   "what is killed would not come back; start it: ",
                   call.CommandLine("up")));
}

int Start(const Invocation& call, const ClusterFlag& cluster, const std::string& coordinator,
          const CompareFlags& flags, ComparePlan plan) {
  std::unique_ptr<TaskProcesses> processes;
  if (plan.death.has_value()) {
    if (const absl::Status restarts = CheckRestarts(call, cluster); !restarts.ok()) {
      return call.Fail(restarts);
    }
    // It forks, so it comes before the client's threads.
    absl::StatusOr<std::unique_ptr<TaskProcesses>> made = call.env().task_processes();
    if (!made.ok()) {
      return call.Fail(made.status());
    }
    processes = *std::move(made);
  }
  const absl::StatusOr<std::unique_ptr<JobClient>> client = cluster.Connect();
  if (!client.ok()) {
    return call.Fail(client.status());
  }
  ComparedJobs jobs(
      call, client->get(), coordinator, processes.get(), flags.patience_s,
      [&cluster] { return cluster.UpRunsCoordinator(); }, flags.keep);
  absl::Status there = jobs.Reach();
  if (there.ok() && plan.death.has_value()) {
    there = jobs.CheckDeath(plan.death->task);
  }
  if (!there.ok()) {
    return jobs.signal().has_value() ? 128 + *jobs.signal() : call.Fail(there);
  }
  return Comparing(call, flags, std::move(plan), &jobs).Run();
}

}  // namespace

int RunCompare(Invocation& call) {
  CompareFlags flags{.patience_s = Patience::kDefaultSeconds};
  const ClusterFlag cluster(&call);
  AddFlags(&call, &flags);
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  if (flags.modes.empty()) {
    return call.Usage("--modes is missing, as in --modes=single,downpour,local:50");
  }
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load();
  if (!loaded.ok()) {
    return call.Fail(loaded.status());
  }
  std::vector<Diagnostic> warnings;
  absl::StatusOr<ComparePlan> plan =
      MakeComparePlan(flags, call.positional()[0], loaded->cluster, &warnings);
  if (!plan.ok()) {
    return Refuse(call, plan.status());
  }
  for (const Diagnostic& warning : warnings) {
    *call.env().err << FormatDiagnostic(warning, "warning") << "\n";
  }
  return Start(call, cluster, loaded->cluster.coordinator().address(), flags, *std::move(plan));
}

}  // namespace monsoon
