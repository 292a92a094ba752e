// ChaosRunner: decides which fault of a plan comes to which task, and when, from the plan,
// its seed and what is seen of the cluster. A state machine: time and the cluster are
// arguments, signals go out through a function.
//
// Thread safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/config/task_pattern.h"
#include "coordinator/chaos/cluster_view.h"
#include "proto/chaos.pb.h"

namespace monsoon {

// One signal.
struct ChaosStep {
  enum class Act { kKill, kTerminate, kStop, kContinue };
  Act act = Act::kKill;
  ChaosPlan::Fault::Kind kind = ChaosPlan::Fault::KILL;  // of the fault that it is part of
  bool begins = false;                                   // it is the fault's first
  TaskView task;                                         // as it was when the fault began
};

// A fault that was done.
struct FaultRecord {
  absl::Duration at;  // since the start of the run
  std::string task;
  uint32_t pid = 0;
  ChaosPlan::Fault::Kind kind = ChaosPlan::Fault::KILL;
  // For how long it was stopped or slowed; of a kill, and until it is over: nothing.
  std::optional<absl::Duration> lasted;
  // From the signal, or from the end of a stop, until the task was seen to be back; nothing
  // of one that is not, or that nobody starts again.
  std::optional<absl::Duration> back_after;
  uint32_t back_pid = 0;
  // It is back, or was seen to have left for good.
  bool over = false;
};

class ChaosRunner {
 public:
  // False: the process is gone. A step that begins a fault counts as not done then; it is
  // tried again once the coordinator has been asked anew.
  using Act = absl::FunctionRef<bool(const ChaosStep&)>;

  // `plan` has its defaults and is right (LoadChaosPlan). The run begins at `start`.
  ChaosRunner(ChaosPlan plan, absl::Duration start);
  ChaosRunner(const ChaosRunner&) = delete;
  ChaosRunner& operator=(const ChaosRunner&) = delete;

  // Does what is due at `now`, which does not go back. `view` is the newest one there is.
  void Advance(absl::Duration now, const ClusterView& view, Act act);
  // Lets whatever is stopped go on; nothing is done afterwards.
  void Cut(absl::Duration now, Act act);
  // When Advance has something to do without a newer view; infinite: nothing.
  absl::Duration wake_at() const;

  // In the order in which they began.
  const std::vector<FaultRecord>& faults() const { return faults_; }
  // Nothing is under way and nothing is left to begin.
  bool finished() const;
  // Every fault that the plan counts was done.
  bool complete() const;
  // Of all entries together; nothing where one goes on until the end.
  std::optional<uint64_t> planned() const;
  // Whether a fault on the task is not over yet, or the task not back from it.
  bool Disturbs(const std::string& task) const;
  // Why the run cannot go on: a task is not back in time. "": it can.
  const std::string& failure() const { return failure_; }

 private:
  // What one entry of the plan is at.
  struct Entry {
    enum class Phase { kPausing, kWaiting, kUnderWay, kReturning, kDone };
    const ChaosPlan::Fault* fault = nullptr;
    std::vector<TaskPattern> patterns;
    std::string text;     // its tasks, for messages
    uint32_t number = 0;  // of its faults: the one that is next or under way
    Phase phase = Phase::kPausing;
    absl::Duration due;    // kPausing
    absl::Duration since;  // kWaiting, kReturning: what deadlines count from
    std::string target;    // kWaiting: the drawn task, or ""
    absl::Duration view_after = -absl::InfiniteDuration();  // kWaiting: not an older view
    uint64_t generation = 0;                                // await_checkpoint wants one above it
    bool got_generation = false;                            // kWaiting
    TaskView task;                                          // kUnderWay, kReturning
    size_t record = 0;                                      // in faults_, of the same
    absl::Duration began, until, toggle;                    // kUnderWay
    bool stopped = false;
    absl::Duration over;  // kReturning: when the fault was
  };
  enum class Return { kNotYet, kBack, kGone };

  void Step(Entry* entry, absl::Duration now, const ClusterView& view, Act act);
  void Wait(Entry* entry, absl::Duration now, const ClusterView& view, Act act);
  // False: the process is gone.
  bool Begin(Entry* entry, const TaskView& task, absl::Duration now, Act act);
  void Continue(Entry* entry, absl::Duration now, const ClusterView& view, Act act);
  void EndFault(Entry* entry, absl::Duration now, Act act);
  void AwaitReturn(Entry* entry, absl::Duration now, const ClusterView& view);
  Return ReturnOf(const Entry& entry, const ClusterView& view) const;
  bool NoMore(absl::Duration now, const ClusterView& view) const;
  const TaskView* Draw(const Entry& entry, const ClusterView& view) const;
  std::array<uint32_t, 4> Words(const Entry& entry) const;
  static absl::Duration DrawFrom(const ChaosPlan::Span& span, uint32_t word);

  const ChaosPlan plan_;
  const absl::Duration start_;
  std::vector<Entry> entries_;
  std::vector<FaultRecord> faults_;
  std::string failure_;
};

}  // namespace monsoon
