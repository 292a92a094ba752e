#include "coordinator/compare/compare_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "common/config/task_pattern.h"
#include "coordinator/compare/rates.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

constexpr uint32_t kMostSeeds = 100;
constexpr size_t kMostRates = 20;
constexpr size_t kLongestName = 64;  // Job.name

// Everything that is wrong, to be told at once.
class Problems {
 public:
  void Add(absl::string_view problem) { lines_.emplace_back(problem); }
  // Each line of an error, behind `what`.
  void Add(const std::string& what, const absl::Status& status) {
    for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
      absl::ConsumePrefix(&line, "error: ");
      lines_.push_back(what.empty() ? std::string(line) : absl::StrCat(what, ": ", line));
    }
  }
  // The value, if it is there.
  template <typename T>
  std::optional<T> Take(const std::string& what, absl::StatusOr<T> value) {
    if (value.ok()) {
      return *std::move(value);
    }
    Add(what, value.status());
    return std::nullopt;
  }
  absl::Status status() const {
    return lines_.empty() ? absl::OkStatus()
                          : absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
  }

 private:
  std::vector<std::string> lines_;
};

std::vector<double> ParseRates(const std::string& text, Problems* problems) {
  std::vector<double> rates;
  std::set<double> seen;
  if (text.empty()) {
    return rates;
  }
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double rate = 0;
    if (!absl::SimpleAtod(part, &rate) || !std::isfinite(rate) || !(rate > 0)) {
      problems->Add(absl::StrCat("--rates: \"", part,
                                 "\" is no number above 0; as in "
                                 "--rates=0.01,0.03"));
    } else if (!seen.insert(rate).second) {
      problems->Add(absl::StrCat("--rates: ", part, " is there twice; leave one out"));
    } else {
      rates.push_back(rate);
    }
  }
  if (rates.size() > kMostRates) {
    problems->Add(absl::StrCat("--rates: ", rates.size(), " are more than ", kMostRates));
  }
  return rates;
}

bool HasTask(const Cluster& cluster, const TaskPattern& task) {
  const uint32_t index = *task.index;
  return task.role == "worker" ? static_cast<int>(index) < cluster.worker_size() || cluster.open()
         : task.role == "ps"   ? static_cast<int>(index) < cluster.ps_size()
                               : index == 0;
}

absl::StatusOr<PlannedDeath> ParseDeath(const std::string& text, const Cluster& cluster) {
  constexpr char kAsIn[] = "; as in --kill=worker/1@0.3";
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  PlannedDeath death{.task = parts.first};
  if (!absl::SimpleAtod(parts.second, &death.share) || !(death.share > 0 && death.share < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text,
                     "\": behind @ stands the share of the job that is done, above 0 "
                     "and below 1",
                     kAsIn));
  }
  ASSIGN_OR_RETURN(const TaskPattern task, ParseTaskPattern(death.task));
  if (!task.index.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", death.task, "\" is no one task", kAsIn));
  }
  if (!HasTask(cluster, task)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", death.task, "\": the cluster file has ", cluster.worker_size(), " workers, ",
        cluster.ps_size(), " parameter servers and coordinator/0, counted from 0"));
  }
  return death;
}

void CheckTo(double to, const Job& job, Problems* problems) {
  if (to == 0) {
    return;
  }
  if (!(to > 0 && to <= 1)) {
    problems->Add(absl::StrCat("--to: ", to, " is outside (0, 1]",
                               to > 1 && to <= 100 ? absl::StrCat("; write --to=", to / 100) : ""));
  } else if (!job.has_test()) {
    problems->Add(
        "--to: the job has no test set to measure an accuracy on; add test { ... } to the job "
        "file, or leave --to out");
  } else if (job.model().loss() == MEAN_SQUARED_ERROR) {
    problems->Add("--to: MEAN_SQUARED_ERROR tells no accuracy; leave --to out");
  }
}

// The short run of each rate.
absl::Status MakeGrid(const std::vector<double>& rates, double epochs, ComparedMode* mode) {
  if (rates.empty()) {
    return absl::OkStatus();
  }
  if (mode->job.has_sandblaster() && !mode->job.has_downpour()) {
    mode->notes.push_back("--rates mean nothing in batch: a line search finds the steps");
    return absl::OkStatus();
  }
  if (!RateOf(mode->job).has_value()) {
    return absl::InvalidArgumentError(
        "--rates: the job's optimizer has no rate; add downpour { optimizer { sgd { rate: 0.1 } } "
        "}");
  }
  for (const double rate : rates) {
    Job job = mode->job;
    SetRate(rate, &job);
    job.clear_stop();
    job.mutable_stop()->set_epochs(epochs);
    RETURN_IF_ERROR(ValidateJob(job));
    mode->grid.push_back(std::move(job));
    mode->rates.push_back(rate);
  }
  return absl::OkStatus();
}

// Whether the task takes part in the job.
bool TakesPart(const std::string& task, const Job& job) {
  const absl::StatusOr<TaskPattern> pattern = ParseTaskPattern(task);
  const uint32_t workers = WantedWorkers(job);
  return !pattern.ok() || pattern->role != "worker" || workers == 0 || *pattern->index < workers;
}

absl::StatusOr<ComparedMode> MakeMode(const ChosenMode& mode, const CompareFlags& flags,
                                      const std::vector<double>& rates, const ComparePlan& plan,
                                      const Cluster& cluster) {
  ComparedMode made{.mode = mode};
  ASSIGN_OR_RETURN(ModeJob job, MakeModeJob(mode, plan.job));
  made.job = std::move(job.job);
  made.notes = std::move(job.notes);
  RETURN_IF_ERROR(ValidateJobOnCluster(made.job, cluster));
  RETURN_IF_ERROR(MakeGrid(rates, flags.grid_epochs, &made));
  if (plan.death.has_value()) {
    made.dies = TakesPart(plan.death->task, made.job);
    if (!made.dies) {
      made.notes.push_back(absl::StrCat(plan.death->task, " takes no part, and is not killed"));
    }
  }
  return made;
}

void CheckNumbers(const CompareFlags& flags, Problems* problems) {
  if (flags.seeds < 1 || flags.seeds > kMostSeeds) {
    problems->Add(absl::StrCat("--seeds: ", flags.seeds, " is outside 1 .. ", kMostSeeds));
  }
  if (!(flags.grid_epochs > 0) || !std::isfinite(flags.grid_epochs)) {
    problems->Add(absl::StrCat("--grid_epochs: ", flags.grid_epochs, " is no number above 0"));
  }
}

}  // namespace

size_t ComparePlan::runs() const {
  size_t runs = 0;
  for (const ComparedMode& mode : modes) {
    runs += mode.grid.size() + seeds.size() * (mode.dies ? 2 : 1);
  }
  return runs;
}

absl::StatusOr<ComparePlan> MakeComparePlan(const CompareFlags& flags, const std::string& job_file,
                                            const Cluster& cluster,
                                            std::vector<Diagnostic>* warnings) {
  Problems problems;
  ComparePlan plan;
  CheckNumbers(flags, &problems);
  const auto modes = problems.Take("", ParseModes(flags.modes));
  const std::vector<double> rates = ParseRates(flags.rates, &problems);
  if (!flags.kill.empty()) {
    plan.death = problems.Take("--kill", ParseDeath(flags.kill, cluster));
  }
  // Workers read the data.
  auto job =
      problems.Take("", LoadJob(job_file, {.overrides = flags.set, .files_are_elsewhere = true},
                                /*diagnostics=*/nullptr, warnings));
  if (!job.has_value()) {
    return problems.status();
  }
  plan.job = *std::move(job);
  CheckTo(flags.to, plan.job, &problems);
  for (uint32_t i = 0; i < std::min(flags.seeds, kMostSeeds); ++i) {
    plan.seeds.push_back(plan.job.seed() + i);
  }
  for (const ChosenMode& mode : modes.value_or(std::vector<ChosenMode>())) {
    if (auto made = problems.Take(mode.text, MakeMode(mode, flags, rates, plan, cluster))) {
      plan.modes.push_back(*std::move(made));
    }
  }
  RETURN_IF_ERROR(problems.status());
  return plan;
}

std::string ComparedName(const std::string& name, const ChosenMode& mode,
                         const std::string& suffix) {
  const std::string rest = absl::StrCat("-compare-", mode.NamePart(), "-", suffix);
  return absl::StrCat(name.substr(0, kLongestName - std::min(kLongestName, rest.size())), rest);
}

}  // namespace monsoon
