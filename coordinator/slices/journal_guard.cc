#include "coordinator/slices/journal_guard.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace monsoon {
namespace {

// No clock shows so many microseconds: whoever tells of such a life is not believed.
constexpr uint64_t kMostTerm = uint64_t{1} << 60;

}  // namespace

void JournalGuard::Begin(const std::string& folder, uint64_t commits) {
  folder_ = folder;
  mark_.set_life(registry_.term());
  mark_.set_begin(commits);
  mark_.set_commits(commits);
  const JournalNamed& named = registry_.writer.state().snapshot().journal();
  mark_.set_id(named.id());
  mark_.set_replaces(named.replaces());
  if (!keeps()) {
    // Terms are by the clock, in microseconds: no other folder has this one.
    Name(registry_.term(), /*replaces=*/0);
  }
  StateUpdate update;
  update.mutable_life_begun()->set_term(mark_.life());
  update.mutable_life_begun()->set_begin(commits);
  Write(update);
}

void JournalGuard::Write(const StateUpdate& update) {
  registry_.writer.Apply(update);
  is_kept_ = false;
}

void JournalGuard::Name(uint64_t id, uint64_t replaces) {
  StateUpdate update;
  update.mutable_journal_named()->set_id(id);
  update.mutable_journal_named()->set_replaces(replaces);
  Write(update);
  mark_.set_id(id);
  mark_.set_replaces(replaces);
}

bool JournalGuard::Follows(const JournalMark& heard) const {
  if (heard.id() != mark_.id()) {
    return heard.id() == 0 || heard.id() == mark_.replaces();
  }
  if (heard.life() == mark_.life()) {
    return heard.commits() <= mark_.commits();  // nobody has heard more of it than it has told
  }
  // What a life has left is there when the next one begins. Before the oldest that is known here
  // there were others.
  const auto& lives = registry_.writer.state().snapshot().life();
  const auto next = std::ranges::upper_bound(lives, heard.life(), {}, &JournalLife::term);
  const bool is_missing = next != lives.begin() && std::prev(next)->term() != heard.life();
  return !is_missing && next != lives.end() && heard.commits() <= next->begin();
}

void JournalGuard::Hear(const std::string& task, const JournalMark& heard) {
  if (heard.life() < kMostTerm) {
    newest_life_ = std::max<uint64_t>(newest_life_, heard.life());
  }
  if (!keeps() || Follows(heard) || !waits_for_.empty()) {
    return;
  }
  const bool same = heard.id() == mark_.id();
  heard_ = heard;
  const std::string advice =
      " (found in " + folder_ +
      "): put the right folder back and start the coordinator again, or give it up: `coordinator "
      "give-up coordinator/0`";
  waits_for_ =
      same ? absl::StrFormat(
                 "coordinator/0's state folder with commit %d, of which %s has heard; "
                 "found: an older copy, with commit %d%s%s",
                 heard.commits(), task, mark_.begin(),
                 mark_.begin() < heard.commits() ? "" : " and without that one", advice)
           : absl::StrFormat(
                 "coordinator/0's state folder %016x, of which %s has heard; found: %s%s",
                 heard.id(), task,
                 mark_.begin() == 0 ? "none" : absl::StrFormat("%016x", mark_.id()), advice);
  registry_.Log(absl::StrCat("nothing is done: it waits for ", waits_for_));
  if (same) {
    older_copy_ = true;
    // A number that no journal had: those were terms of the past.
    Name(std::max(registry_.term(), mark_.id()) + 1, mark_.replaces());
  }
}

std::optional<JournalMark> JournalGuard::MarkFor(uint32_t shard) const {
  const bool told = waits_for_.empty() && is_kept_ && registry_.shards.shard(shard).was_heard();
  return told ? mark() : std::nullopt;
}

absl::Status JournalGuard::Check() const {
  return waits_for_.empty() ? absl::OkStatus()
                            : absl::FailedPreconditionError(
                                  absl::StrCat("the coordinator waits for ", waits_for_));
}

bool JournalGuard::MayAct() const {
  bool heard = !keeps();
  for (uint32_t shard = 0; shard < registry_.shards.size(); ++shard) {
    heard |= registry_.shards.shard(shard).was_heard();
  }
  return heard && waits_for_.empty();
}

absl::Status JournalGuard::CheckForWorkers() const {
  const bool idle = waits_for_.empty() && registry_.jobs.active().empty();
  return idle ? absl::OkStatus() : CheckAbsence();
}

absl::Status JournalGuard::CheckAbsence() const {
  if (!waits_for_.empty()) {
    return absl::UnavailableError(Check().message());
  }
  return MayAct() ? absl::OkStatus()
                  : absl::UnavailableError(
                        "the coordinator was started anew, and no parameter server has answered "
                        "yet");
}

absl::StatusOr<std::string> JournalGuard::GiveUp() {
  if (waits_for_.empty()) {
    return absl::FailedPreconditionError(
        "nobody has heard of a newer state of coordinator/0 than its state folder has: there is "
        "nothing to give up");
  }
  const std::string what =
      older_copy_ ? absl::StrFormat(
                        "coordinator/0's state folder with commit %d (it goes on from an older "
                        "copy, with commit %d)",
                        heard_.commits(), mark_.begin())
                  : absl::StrFormat("coordinator/0's state folder %016x", heard_.id());
  // It keeps its name: others that had heard of none may have heard of this one by now.
  Name(mark_.id(), heard_.id());
  waits_for_.clear();
  return what;
}

}  // namespace monsoon
