// JournalGuard: keeps a coordinator from going on from a state folder that is not the newest one:
// an old copy that was put back, that of another cluster, or an empty one in its place. It would
// forget jobs without a word, or do again what shards and workers have done since.
//
// Shards and workers remember the newest journal that they have heard of (JournalMark): whose it
// is, and how many commits it had for certain. This life knows how many there were when it began.
// So whoever has heard of more of them, or of another journal, shows that the folder is the wrong
// one. Then nothing is done, and people are told, until the right folder is there and the
// coordinator was started again, or until they have given the newer state up. Before the first
// shard has said what it heard, no shard is told anything either.
//
// The journal knows which lives have written to it, and how many commits each has left. An older
// copy lacks the life that others have heard of, or some of that life's commits, however many other
// ones lives have added to the copy that no shard has answered. It takes another id as soon as it
// is known to be one.
//
// Lives are told apart by their terms. Where the clock is behind the last term, the life of an
// older copy may take the very term that a life of the newer state has had, so a term alone shows
// nothing. Who gives the newer state up takes a term above all that were heard of: what is
// numbered from then on, jobs and incarnations, is nobody's of before.
//
// A copy that is younger than the last poll is not noticed. A coordinator that keeps nothing has no
// mark, and is not guarded.
//
// Pure. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/job/registry.h"
#include "proto/journal_mark.pb.h"

namespace monsoon {

class JournalGuard {
 public:
  explicit JournalGuard(Registry* registry) : registry_(*registry) {}

  // The journal is in `folder`, and had so many commits when this life began.
  void Begin(const std::string& folder, uint64_t commits);
  // So many are there for certain by now; `all`: with them all that the state has.
  void NoteCommits(uint64_t commits, bool all) {
    mark_.set_commits(commits);
    is_kept_ |= all;
  }
  // What `shard` is to remember; nothing before it has said in this life what it has heard, nor
  // while another journal is waited for: what a wrong folder has told would keep the right one out.
  // Nor before the journal has its name and this life for certain, which the next life would not
  // know otherwise.
  std::optional<JournalMark> MarkFor(uint32_t shard) const;
  // The same of workers, who are told once a shard has answered.
  std::optional<JournalMark> MarkForWorkers() const {
    return MayAct() && is_kept_ ? mark() : std::nullopt;
  }
  // Of this journal; nothing: nothing is kept.
  std::optional<JournalMark> mark() const {
    return keeps() ? std::make_optional(mark_) : std::nullopt;
  }
  // Why updates of the state cannot be kept now; "": they can.
  void NoteTrouble(const std::string& trouble) { trouble_ = trouble; }
  const std::string& trouble() const { return trouble_; }

  // `task` has heard of this one.
  void Hear(const std::string& task, const JournalMark& heard);
  // The folder that must be there before anything is done, and why; "": nothing is missing.
  const std::string& waits_for() const { return waits_for_; }
  // FAILED_PRECONDITION while that is so: for people.
  absl::Status Check() const;
  // Nothing is missing, and a shard has said so: shards may be told what to do.
  bool MayAct() const;
  // UNAVAILABLE while that is so, or may be so since no shard has said anything yet: whoever has a
  // session may have done since what an older journal would have done again.
  absl::Status CheckForWorkers() const;
  // UNAVAILABLE unless MayAct: before people or programs are told that there is no such job, which
  // the right folder may have.
  absl::Status CheckAbsence() const;
  // What others have heard of will not come back: this journal takes its place. Gives what was
  // given up. FAILED_PRECONDITION where nothing is missing.
  absl::StatusOr<std::string> GiveUp();
  // The highest term of a coordinator's life that anybody has heard of.
  uint64_t newest_life() const { return newest_life_; }

 private:
  bool keeps() const { return mark_.id() != 0; }
  // Its own mark, or that of a life that this journal has, or of a journal that it replaces.
  bool Follows(const JournalMark& heard) const;
  void Name(uint64_t id, uint64_t replaces);
  void Write(const StateUpdate& update);

  Registry& registry_;
  JournalMark mark_;
  std::string folder_;
  JournalMark heard_;  // the one that is missing
  bool older_copy_ = false;
  bool is_kept_ = true;  // the name, and this life
  uint64_t newest_life_ = 0;
  std::string waits_for_;
  std::string trouble_;
};

}  // namespace monsoon
