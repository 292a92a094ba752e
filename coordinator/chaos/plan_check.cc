#include "coordinator/chaos/plan_check.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/config/task_pattern.h"

namespace monsoon {
namespace {

// Tasks that a message lists.
constexpr size_t kMostNamed = 8;

std::string TaskNames(const ClusterView& view) {
  std::vector<std::string> names;
  for (const TaskView& task : view.tasks) {
    names.push_back(task.name);
  }
  const size_t shown = std::min(names.size(), kMostNamed);
  return absl::StrCat(
      absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
      shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : "");
}

// One text of an entry's `task`.
absl::Status CheckTask(const std::string& text, const std::string& field, const ClusterView& view,
                       std::set<std::string>* left_out) {
  ASSIGN_OR_RETURN(const TaskPattern pattern, ParseTaskPattern(text));
  const auto wrong = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": \"", text, "\": ", why));
  };
  size_t meant = 0;
  std::string elsewhere;
  std::set<std::string> notes;
  for (const TaskView& task : view.tasks) {
    if (!pattern.Matches(task.name)) {
      continue;
    }
    ++meant;
    if (!task.elsewhere.empty()) {
      elsewhere = absl::StrCat(task.name, " is no task of this machine: ", task.elsewhere);
      notes.insert(absl::StrCat(task.name, " is left alone: ", task.elsewhere));
    }
  }
  if (meant == 0) {
    return wrong(absl::StrCat("the cluster has no such task; it has ", TaskNames(view)));
  }
  if (notes.size() == meant) {
    return wrong(elsewhere);
  }
  left_out->insert(notes.begin(), notes.end());
  return absl::OkStatus();
}

}  // namespace

std::vector<TaskView> TasksOfPlan(const ChaosPlan& plan, const ClusterView& view) {
  std::vector<TaskPattern> patterns;
  for (const ChaosPlan::Fault& fault : plan.fault()) {
    for (const std::string& text : fault.task()) {
      if (const absl::StatusOr<TaskPattern> pattern = ParseTaskPattern(text); pattern.ok()) {
        patterns.push_back(*pattern);
      }
    }
  }
  std::vector<TaskView> tasks;
  for (const TaskView& task : view.tasks) {
    const bool meant = std::ranges::any_of(
        patterns, [&](const TaskPattern& pattern) { return pattern.Matches(task.name); });
    if (meant && task.elsewhere.empty()) {
      tasks.push_back(task);
    }
  }
  return tasks;
}

absl::Status CheckPlanOnCluster(const ChaosPlan& plan, const ClusterView& view,
                                std::vector<std::string>* notes) {
  const JobSummary& job = view.job.summary();
  if (view.job_has_ended()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.job(), " has ended (", JobState_Name(job.state()),
                     "): there is nothing to disturb; submit a job, or name one with --job"));
  }
  std::set<std::string> left_out;
  const bool trains = job.state() == WARMSTART || job.state() == RUNNING;
  const bool keeps_nothing = trains && view.job.durability().promise() == "memory_only";
  for (int i = 0; i < plan.fault_size(); ++i) {
    const ChaosPlan::Fault& fault = plan.fault(i);
    const std::string field = absl::StrCat("fault[", i, "]");
    for (const std::string& text : fault.task()) {
      RETURN_IF_ERROR(CheckTask(text, field + ".task", view, &left_out));
    }
    if (fault.await_checkpoint() && keeps_nothing) {
      return absl::FailedPreconditionError(
          absl::StrCat(field, ".await_checkpoint: job ", job.job(),
                       " is kept in memory only, so there will be no generation"));
    }
  }
  notes->insert(notes->end(), left_out.begin(), left_out.end());
  return absl::OkStatus();
}

}  // namespace monsoon
