#include "ps_server/client/shard_presence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// A look whether a silent shard is back costs the pushing thread its patience: at first
// little, so that it is seen soon, and more where that was not enough for a long way.
constexpr absl::Duration kFirstPatience = absl::Milliseconds(150);
constexpr int kShortLooks = 5;
// So many times as long it pushes to the others before the next look.
constexpr int kPausePerPatience = 6;

}  // namespace

ShardPresence::ShardPresence(const std::vector<uint64_t>& epochs,
                             const std::vector<std::string>* names)
    : names_(*names), why_(epochs.size()) {
  for (const uint64_t epoch : epochs) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->named = epoch;
  }
}

void ShardPresence::GoAway(uint32_t shard, absl::Duration next_try) {
  shards_[shard]->there = false;
  shards_[shard]->ready = 0;
  shards_[shard]->next_try = next_try;
}

void ShardPresence::SetWhy(uint32_t shard, std::string why) {
  MutexLock lock(&why_mutex_);
  why_[shard] = std::move(why);
}

absl::Duration ShardPresence::PatienceOf(uint32_t shard, absl::Duration longest) const {
  const int doublings = std::clamp(shards_[shard]->silent_looks - kShortLooks + 1, 0, 8);
  return std::min(kFirstPatience * (1 << doublings), longest);
}

void ShardPresence::LookedInVain(uint32_t shard, bool silent, absl::Duration patience,
                                 absl::Duration now) {
  shards_[shard]->silent_looks += silent ? 1 : 0;
  shards_[shard]->next_try = now + (silent ? kPausePerPatience * patience : kTry);
}

void ShardPresence::Answers(uint32_t shard) {
  shards_[shard]->there = true;
  shards_[shard]->silent = false;
  shards_[shard]->silent_looks = 0;
}

void ShardPresence::NoteRound(uint32_t shard, bool open, absl::Duration now) {
  std::optional<absl::Duration>& since = shards_[shard]->round_since;
  since = open ? since.value_or(now) : std::optional<absl::Duration>();
}

std::optional<absl::Duration> ShardPresence::round_open_since() const {
  std::optional<absl::Duration> first;
  for (const auto& shard : shards_) {
    if (shard->round_since.has_value()) {
      first = std::min(first.value_or(*shard->round_since), *shard->round_since);
    }
  }
  return first;
}

std::optional<uint32_t> ShardPresence::silent() const {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_[shard]->silent) {
      return shard;
    }
  }
  return std::nullopt;
}

uint64_t ShardPresence::ready_epoch(uint32_t shard) const {
  // A life that was named meanwhile has got nothing yet.
  const uint64_t epoch = shards_[shard]->ready;
  return epoch == shards_[shard]->named ? epoch : 0;
}

std::optional<std::string> ShardPresence::away() const {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (ready_epoch(shard) != 0) {
      continue;
    }
    MutexLock lock(&why_mutex_);
    return absl::StrCat(names_[shard], why_[shard].empty() ? "" : ": ", why_[shard]);
  }
  return std::nullopt;
}

}  // namespace monsoon
