#include "coordinator/chaos/cluster_view.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/config/address.h"

namespace monsoon {
namespace {

constexpr char kGuest[] = "a guest";

// As the coordinator shows a guest: its host, in place of an address.
std::string WhyElsewhere(const TaskView& task, const std::string& host) {
  if (task.guest) {
    absl::string_view of = task.address;
    return absl::ConsumePrefix(&of, "a guest on ") && of == host
               ? ""
               : absl::StrCat("it is ", task.address, ", and this is ", host);
  }
  return IsLoopback(task.address)
             ? ""
             : absl::StrCat("its address ", task.address,
                            " is not one of this machine alone (loopback or unix)");
}

}  // namespace

const TaskView* ClusterView::Find(const std::string& task) const {
  for (const TaskView& view : tasks) {
    if (view.name == task) {
      return &view;
    }
  }
  return nullptr;
}

bool ClusterView::job_has_ended() const {
  const JobState state = job.summary().state();
  return state == SUCCEEDED || state == FAILED || state == CANCELLED;
}

bool ClusterView::job_is_restoring() const {
  const JobState state = job.summary().state();
  if (state != WARMSTART && state != RUNNING && state != FINISHING) {
    return false;  // It has no slices yet, or needs none any more.
  }
  std::map<std::string, uint32_t> shown;
  for (const JobDescription::Shard& shard : job.shard()) {
    shown[absl::StrCat("ps/", shard.task())] = shard.pid();
  }
  for (const TaskView& task : tasks) {
    if (!absl::StartsWith(task.name, "ps/")) {
      continue;
    }
    const auto slice = shown.find(task.name);
    if (task.state == "NEVER SEEN" ||
        (task.up() && (slice == shown.end() || slice->second != task.pid))) {
      return true;
    }
  }
  return false;
}

ClusterView MakeClusterView(absl::Duration asked_at, const std::string& coordinator,
                            const std::string& host, const InfoReply& info, JobDescription job) {
  ClusterView view{.asked_at = asked_at, .job = std::move(job)};
  view.tasks.push_back(
      {.name = "coordinator/0", .state = "UP", .pid = info.pid(), .address = coordinator});
  for (const TaskStatus& task : info.task()) {
    view.tasks.push_back({.name = task.task(),
                          .state = task.state(),
                          .pid = task.pid(),
                          .address = task.address(),
                          .guest = absl::StartsWith(task.address(), kGuest)});
  }
  for (TaskView& task : view.tasks) {
    task.elsewhere = WhyElsewhere(task, host);
  }
  return view;
}

}  // namespace monsoon
