// A cluster that a ChaosRunner disturbs, and a clock that goes by ticks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/chaos.h"
#include "common/testing/status_matchers.h"
#include "coordinator/chaos/chaos_runner.h"
#include "gmock/gmock.h"

namespace monsoon {

inline constexpr absl::Duration kTick = absl::Milliseconds(10);

struct SentSignal {
  absl::Duration at;
  ChaosStep::Act act;
  std::string task;
  uint32_t pid;
};

// A cluster of a coordinator, two shards and three workers whose tasks come back some time
// after they were killed, and a clock that goes by ticks.
class ChaosRunnerTest : public ::testing::Test {
 protected:
  using Act = ChaosStep::Act;

  ChaosRunnerTest() { Reset(); }

  // As at the beginning of the test.
  void Reset() {
    view_ = ClusterView();
    runner_.reset();
    now_ = absl::Seconds(1000);
    back_after_ = absl::Milliseconds(500);
    back_at_.clear();
    signals_.clear();
    for (const char* name : {"coordinator/0", "ps/0", "ps/1", "worker/0", "worker/1", "worker/2"}) {
      const auto pid = static_cast<uint32_t>(100 + view_.tasks.size());
      view_.tasks.push_back({.name = name, .state = "UP", .pid = pid});
    }
    view_.job.mutable_summary()->set_job("j-1");
    view_.job.mutable_summary()->set_state(RUNNING);
    for (uint32_t shard = 0; shard < 2; ++shard) {
      view_.job.add_shard()->set_task(shard);
      view_.job.mutable_shard(static_cast<int>(shard))->set_pid(101 + shard);
    }
  }

  void Start(const std::string& text) {
    const absl::StatusOr<ChaosPlan> plan = LoadChaosPlan("plan", nullptr, &text);
    ASSERT_OK(plan.status());
    runner_ = std::make_unique<ChaosRunner>(*plan, now_);
    start_ = now_;
  }

  TaskView& Task(const std::string& name) {
    for (TaskView& task : view_.tasks) {
      if (task.name == name) {
        return task;
      }
    }
    ADD_FAILURE() << name;
    return view_.tasks[0];
  }

  // The slice that the job shows is that of the shard's present process.
  void Restore(uint32_t shard) {
    view_.job.mutable_shard(static_cast<int>(shard))->set_pid(Task(absl::StrCat("ps/", shard)).pid);
  }

  bool Take(const ChaosStep& step) {
    signals_.push_back({now_ - start_, step.act, step.task.name, step.task.pid});
    if (gone_.contains(step.task.name)) {
      return false;
    }
    if (step.act == Act::kKill || step.act == Act::kTerminate) {
      if (back_after_.has_value()) {
        back_at_[step.task.name] = now_ + *back_after_;
      }
    }
    return true;
  }

  // One tick: who is due is back, the cluster is asked, the runner does what is due.
  void Tick() {
    for (auto due = back_at_.begin(); due != back_at_.end();) {
      if (due->second > now_) {
        ++due;
        continue;
      }
      Task(due->first).pid += 100;
      Task(due->first).state = "UP";
      if (restores_ && absl::StartsWith(due->first, "ps/")) {
        Restore(due->first == "ps/0" ? 0 : 1);
      }
      due = back_at_.erase(due);
    }
    if (answers_) {
      view_.asked_at = now_;
    }
    now_ += kTick;
    runner_->Advance(now_, view_, [this](const ChaosStep& step) { return Take(step); });
  }

  // Until the runner has finished or failed, or for so long.
  void Run(absl::Duration most = absl::Hours(1)) {
    for (const absl::Duration end = now_ + most;
         now_ < end && !runner_->finished() && runner_->failure().empty();) {
      Tick();
    }
  }

  std::vector<std::string> Tasks() const {
    std::vector<std::string> tasks;
    for (const FaultRecord& fault : runner_->faults()) {
      tasks.push_back(fault.task);
    }
    return tasks;
  }

  ClusterView view_;
  std::unique_ptr<ChaosRunner> runner_;
  absl::Duration now_;
  absl::Duration start_;
  std::optional<absl::Duration> back_after_;  // unset: never
  bool restores_ = true;
  bool answers_ = true;
  std::set<std::string> gone_;  // whose process is not there
  std::map<std::string, absl::Duration> back_at_;
  std::vector<SentSignal> signals_;
};

}  // namespace monsoon
