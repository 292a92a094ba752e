// ShardPresence: which shards are there for a session's pushes, and when one that is away is tried
// again.
//
// Thread safety: calls of the first part belong to one thread at a time, those of the second may
// come from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace monsoon {

class ShardPresence {
 public:
  // Between tries of one that is away and that does not keep silent.
  static constexpr absl::Duration kTry = absl::Milliseconds(50);

  // All are there. `epochs`: what the coordinator has named; `names`, for messages, outlive this.
  ShardPresence(const std::vector<uint64_t>& epochs, const std::vector<std::string>* names);

  // ---- one thread at a time ----

  bool there(uint32_t shard) const { return shards_[shard]->there; }
  uint64_t named(uint32_t shard) const { return shards_[shard]->named; }
  // It is tried again at `next_try`.
  void GoAway(uint32_t shard, absl::Duration next_try);
  void SetWhy(uint32_t shard, std::string why);
  bool IsDue(uint32_t shard, absl::Duration now) const { return now >= shards_[shard]->next_try; }
  // For how long a look whether it is back may find it silent; at most `longest`.
  absl::Duration PatienceOf(uint32_t shard, absl::Duration longest) const;
  // Such a look was in vain. `silent`: it cost its patience.
  void LookedInVain(uint32_t shard, bool silent, absl::Duration patience, absl::Duration now);
  // It does not answer; or what it says keeps it from taking pushes.
  void SetSilent(uint32_t shard, bool silent) { shards_[shard]->silent = silent; }
  // It answers again: it has yet to get what is kept for it.
  void Answers(uint32_t shard);
  // It has taken no push since `now` or before, because a round of others is open there; or it
  // has taken one.
  void NoteRound(uint32_t shard, bool open, absl::Duration now);
  // Since when some shard has been waiting like this; nothing: none does.
  std::optional<absl::Duration> round_open_since() const;
  // Its life in which it has all; 0: it has not.
  void SetReady(uint32_t shard, uint64_t epoch) { shards_[shard]->ready = epoch; }

  // ---- any thread ----

  // What the coordinator says.
  void NameEpoch(uint32_t shard, uint64_t epoch) { shards_[shard]->named = epoch; }
  // The epoch in which the shard has all that it ever acknowledged; 0: it is away.
  uint64_t ready_epoch(uint32_t shard) const;
  // The first one that does not answer.
  std::optional<uint32_t> silent() const;
  // The first shard that is away, by name, and why; nothing: none is.
  std::optional<std::string> away() const;

 private:
  struct Shard {
    bool there = true;
    absl::Duration next_try;  // of one that is away
    int silent_looks = 0;     // since it went away, that were not answered
    std::optional<absl::Duration> round_since;
    std::atomic<uint64_t> named{0};
    std::atomic<uint64_t> ready{0};
    std::atomic<bool> silent{false};
  };

  const std::vector<std::string>& names_;
  std::vector<std::unique_ptr<Shard>> shards_;

  mutable Mutex why_mutex_;
  std::vector<std::string> why_ ABSL_GUARDED_BY(why_mutex_);  // [shard], "": it is there
};

}  // namespace monsoon
