#include "coordinator/chaos/chaos_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/random.h"

namespace monsoon {
namespace {

using Fault = ChaosPlan::Fault;

constexpr char kCoordinator[] = "coordinator/0";
// High half of the counters of the draws; no StreamKind is as large.
constexpr uint64_t kDraws = uint64_t{0xc4a05} << 32;
// What the words of a draw are for.
constexpr size_t kTaskWord = 0;
constexpr size_t kPauseWord = 1;
constexpr size_t kLengthWord = 2;

bool Kills(Fault::Kind kind) { return kind == Fault::KILL || kind == Fault::TERMINATE; }

std::string SecondsText(absl::Duration time) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(time));
}

}  // namespace

ChaosRunner::ChaosRunner(ChaosPlan plan, absl::Duration start)
    : plan_(std::move(plan)), start_(start) {
  for (const Fault& fault : plan_.fault()) {
    Entry entry{.fault = &fault, .text = absl::StrJoin(fault.task(), ", ")};
    for (const std::string& text : fault.task()) {
      const absl::StatusOr<TaskPattern> pattern = ParseTaskPattern(text);
      CHECK_OK(pattern.status());
      entry.patterns.push_back(*pattern);
    }
    entry.due = start + absl::Seconds(fault.from_s());
    entries_.push_back(std::move(entry));
  }
}

// Of the entry's fault `number`, whenever it comes.
std::array<uint32_t, 4> ChaosRunner::Words(const Entry& entry) const {
  const auto index = static_cast<uint64_t>(&entry - entries_.data());
  return Philox4x32(plan_.seed(), kDraws | index, entry.number);
}

absl::Duration ChaosRunner::DrawFrom(const ChaosPlan::Span& span, uint32_t word) {
  const double share = static_cast<double>(word) * 0x1p-32;
  return absl::Seconds(span.min() + share * (span.max() - span.min()));
}

bool ChaosRunner::NoMore(absl::Duration now, const ClusterView& view) const {
  return view.job_has_ended() ||
         (plan_.seconds() > 0 && now - start_ >= absl::Seconds(plan_.seconds()));
}

void ChaosRunner::Advance(absl::Duration now, const ClusterView& view, Act act) {
  // Who waits for the coordinator's word must not be blamed for its silence.
  if (Disturbs(kCoordinator)) {
    for (Entry& entry : entries_) {
      const bool returns = entry.phase == Entry::Phase::kReturning;
      if (entry.phase == Entry::Phase::kWaiting || (returns && entry.task.name != kCoordinator)) {
        entry.since = now;
      }
    }
  }
  for (Entry& entry : entries_) {
    if (!failure_.empty()) {
      return;
    }
    Step(&entry, now, view, act);
  }
}

void ChaosRunner::Step(Entry* entry, absl::Duration now, const ClusterView& view, Act act) {
  if (entry->phase == Entry::Phase::kReturning) {
    AwaitReturn(entry, now, view);
  }
  if (entry->phase == Entry::Phase::kPausing && NoMore(now, view)) {
    entry->phase = Entry::Phase::kDone;
  }
  if (entry->phase == Entry::Phase::kPausing && now >= entry->due) {
    entry->phase = Entry::Phase::kWaiting;
    entry->since = now;
    entry->target.clear();
    entry->got_generation = false;
  }
  if (entry->phase == Entry::Phase::kWaiting) {
    Wait(entry, now, view, act);
  }
  if (entry->phase == Entry::Phase::kUnderWay) {
    Continue(entry, now, view, act);
  }
}

void ChaosRunner::Wait(Entry* entry, absl::Duration now, const ClusterView& view, Act act) {
  if (NoMore(now, view)) {
    entry->phase = Entry::Phase::kDone;
    return;
  }
  if (entry->fault->await_checkpoint() && !entry->got_generation) {
    if (view.generation() <= entry->generation) {
      if (now - entry->since > absl::Seconds(plan_.checkpoint_within_s())) {
        failure_ = absl::StrCat(
            "no generation of ", view.job.summary().job(), " after ", entry->generation,
            " is held ", SecondsText(now - entry->since), " after the next ",
            Fault::Kind_Name(entry->fault->kind()), " of ", entry->text, " was due",
            view.job.durability().error().empty() ? "" : ": ", view.job.durability().error());
      }
      return;
    }
    entry->got_generation = true;
    entry->since = now;
  }
  const TaskView* task = entry->target.empty() ? Draw(*entry, view) : view.Find(entry->target);
  entry->target = task == nullptr ? "" : task->name;
  if (task != nullptr && Disturbs(task->name)) {
    entry->since = now;  // The other fault has a deadline of its own.
    return;
  }
  if (task != nullptr && task->up() && view.asked_at > entry->view_after &&
      Begin(entry, *task, now, act)) {
    return;
  }
  if (task != nullptr && !task->up()) {
    entry->target.clear();  // It has gone by itself: any other will do.
  }
  if (now - entry->since > absl::Seconds(plan_.back_within_s())) {
    failure_ = absl::StrCat(entry->text, ": no such task was there to be signalled ",
                            SecondsText(now - entry->since), " after its next ",
                            Fault::Kind_Name(entry->fault->kind()), " was due");
  }
}

// Those that are away because of this run stay in the draw: which task it is does not
// depend on how fast they come back.
const TaskView* ChaosRunner::Draw(const Entry& entry, const ClusterView& view) const {
  std::vector<const TaskView*> candidates;
  for (const TaskView& task : view.tasks) {
    const bool meant = std::ranges::any_of(
        entry.patterns, [&](const TaskPattern& pattern) { return pattern.Matches(task.name); });
    if (meant && task.elsewhere.empty() && (task.up() || Disturbs(task.name))) {
      candidates.push_back(&task);
    }
  }
  if (candidates.empty()) {
    return nullptr;
  }
  return candidates[uint64_t{Words(entry)[kTaskWord]} * candidates.size() >> 32];
}

bool ChaosRunner::Begin(Entry* entry, const TaskView& task, absl::Duration now, Act act) {
  const Fault& fault = *entry->fault;
  const auto signal = fault.kind() == Fault::KILL        ? ChaosStep::Act::kKill
                      : fault.kind() == Fault::TERMINATE ? ChaosStep::Act::kTerminate
                                                         : ChaosStep::Act::kStop;
  if (!act({signal, fault.kind(), /*begins=*/true, task})) {
    entry->view_after = now;
    return false;
  }
  entry->task = task;
  entry->record = faults_.size();
  faults_.push_back({.at = now - start_, .task = task.name, .pid = task.pid, .kind = fault.kind()});
  if (Kills(fault.kind())) {
    entry->phase = Entry::Phase::kReturning;
    entry->over = entry->since = now;
    return true;
  }
  entry->phase = Entry::Phase::kUnderWay;
  entry->stopped = true;
  entry->began = now;
  entry->until = now + DrawFrom(fault.lasts_s(), Words(*entry)[kLengthWord]);
  return true;
}

void ChaosRunner::Continue(Entry* entry, absl::Duration now, const ClusterView& view, Act act) {
  if (now >= entry->until || view.job_has_ended()) {
    EndFault(entry, now, act);
    return;
  }
  entry->toggle = entry->until;
  if (entry->fault->kind() != Fault::SLOW) {
    return;
  }
  const absl::Duration period = absl::Seconds(entry->fault->period_s());
  absl::Duration into;
  const int64_t whole = absl::IDivDuration(now - entry->began, period, &into);
  const absl::Duration stop = period * entry->fault->share();
  const bool stopped = into < stop;
  entry->toggle = std::min(entry->until, entry->began + whole * period + (stopped ? stop : period));
  if (stopped == entry->stopped) {
    return;
  }
  entry->stopped = stopped;
  const auto signal = stopped ? ChaosStep::Act::kStop : ChaosStep::Act::kContinue;
  if (!act({signal, Fault::SLOW, /*begins=*/false, entry->task})) {
    entry->stopped = false;  // It has died by itself.
    EndFault(entry, now, act);
  }
}

void ChaosRunner::EndFault(Entry* entry, absl::Duration now, Act act) {
  if (entry->stopped) {
    act({ChaosStep::Act::kContinue, entry->fault->kind(), /*begins=*/false, entry->task});
    entry->stopped = false;
  }
  faults_[entry->record].lasted = now - entry->began;
  entry->phase = Entry::Phase::kReturning;
  entry->over = entry->since = now;
}

ChaosRunner::Return ChaosRunner::ReturnOf(const Entry& entry, const ClusterView& view) const {
  if (view.asked_at <= entry.over) {
    return Return::kNotYet;
  }
  const TaskView* const task = view.Find(entry.task.name);
  const bool kills = Kills(entry.fault->kind());
  const bool another = task != nullptr && task->pid != entry.task.pid;
  if (task != nullptr && task->up() && (another || !kills)) {
    return kills && view.job_is_restoring() ? Return::kNotYet : Return::kBack;
  }
  if (!kills || (task != nullptr && task->up())) {
    return Return::kNotYet;
  }
  // Nobody is known to start them again.
  const bool left = entry.fault->kind() == Fault::TERMINATE &&
                    absl::StartsWith(entry.task.name, "worker/") &&
                    (task == nullptr || task->state != "DRAINING");
  return left || entry.task.guest ? Return::kGone : Return::kNotYet;
}

void ChaosRunner::AwaitReturn(Entry* entry, absl::Duration now, const ClusterView& view) {
  const Return seen = ReturnOf(*entry, view);
  FaultRecord& record = faults_[entry->record];
  if (seen == Return::kNotYet) {
    if (now - entry->since > absl::Seconds(plan_.back_within_s())) {
      const TaskView* const task = view.Find(entry->task.name);
      failure_ = absl::StrCat(
          record.task, " (pid ", record.pid, ") is not back ", SecondsText(now - entry->over),
          " after its ", Fault::Kind_Name(record.kind), " at ", SecondsText(record.at), ": it is ",
          task == nullptr ? "not listed" : task->state,
          task != nullptr && task->pid != record.pid ? absl::StrCat(", pid ", task->pid) : "",
          view.job.summary().reason().empty()
              ? ""
              : absl::StrCat("; ", view.job.summary().job(), " ", view.job.summary().reason()));
    }
    return;
  }
  if (seen == Return::kBack) {
    record.back_after = now - entry->over;
    record.back_pid = view.Find(entry->task.name)->pid;
  }
  record.over = true;
  entry->generation = view.generation();
  ++entry->number;
  const bool more = entry->fault->until_the_end() || entry->number < entry->fault->times();
  entry->phase = more ? Entry::Phase::kPausing : Entry::Phase::kDone;
  entry->due = now + DrawFrom(entry->fault->pause_s(), Words(*entry)[kPauseWord]);
}

void ChaosRunner::Cut(absl::Duration now, Act act) {
  for (Entry& entry : entries_) {
    if (entry.phase == Entry::Phase::kUnderWay) {
      EndFault(&entry, now, act);
    }
    entry.phase = Entry::Phase::kDone;
  }
}

absl::Duration ChaosRunner::wake_at() const {
  absl::Duration first = absl::InfiniteDuration();
  for (const Entry& entry : entries_) {
    if (entry.phase == Entry::Phase::kPausing) {
      first = std::min(first, entry.due);
    } else if (entry.phase == Entry::Phase::kUnderWay) {
      first = std::min(first, entry.toggle);
    }
  }
  return first;
}

bool ChaosRunner::Disturbs(const std::string& task) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    return (entry.phase == Entry::Phase::kUnderWay || entry.phase == Entry::Phase::kReturning) &&
           entry.task.name == task;
  });
}

bool ChaosRunner::finished() const {
  return std::ranges::all_of(entries_,
                             [](const Entry& entry) { return entry.phase == Entry::Phase::kDone; });
}

bool ChaosRunner::complete() const {
  return finished() && std::ranges::all_of(entries_, [](const Entry& entry) {
           return entry.fault->until_the_end() || entry.number >= entry.fault->times();
         });
}

std::optional<uint64_t> ChaosRunner::planned() const {
  uint64_t sum = 0;
  for (const Entry& entry : entries_) {
    if (entry.fault->until_the_end()) {
      return std::nullopt;
    }
    sum += entry.fault->times();
  }
  return sum;
}

}  // namespace monsoon
