#include "coordinator/shards/shard_monitor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {

void ShardMonitor::Expect(uint32_t shard, const ShardStatusReply& known, absl::Duration now) {
  ShardView& view = shards_[shard];
  view.state = ShardView::State::kSuspect;
  view.expected = true;
  view.status = known;
  view.last_seen = now;
}

std::optional<ShardChange> ShardMonitor::OnPoll(uint32_t shard, uint64_t round,
                                                const absl::StatusOr<ShardStatusReply>& reply,
                                                absl::Duration now, int64_t unix_ms) {
  ShardView& view = shards_[shard];
  if (!reply.ok()) {
    view.last_error = reply.status();
    return std::nullopt;
  }
  if (reply->task() != shard) {
    view.last_error = absl::FailedPreconditionError(
        absl::StrCat("ps/", reply->task(), " (pid ", reply->pid(), ") answers there"));
    return std::nullopt;
  }
  const ShardView::State before = view.state;
  ShardChange change{ShardChange::Kind::kJoined, shard, view.status.pid(), reply->pid(),
                     now - view.last_seen};
  const bool restarted =
      before != ShardView::State::kNeverSeen && view.status.shard_epoch() != reply->shard_epoch();
  view.state = ShardView::State::kUp;
  view.status = *reply;
  view.last_seen = now;
  view.last_seen_ms = unix_ms;
  view.round = round;
  view.last_error = absl::OkStatus();
  const bool expected = std::exchange(view.expected, false);
  if (restarted) {
    change.kind = ShardChange::Kind::kRestarted;
  } else if (expected) {
    change.kind = ShardChange::Kind::kJoined;
  } else if (before == ShardView::State::kSuspect || before == ShardView::State::kLost) {
    change.kind = ShardChange::Kind::kBack;
  } else if (before == ShardView::State::kUp) {
    return std::nullopt;
  }
  return change;
}

std::vector<ShardChange> ShardMonitor::Tick(absl::Duration now) {
  std::vector<ShardChange> changes;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    ShardView& view = shards_[shard];
    const absl::Duration silent = now - view.last_seen;
    const auto change = [&](ShardView::State state, ShardChange::Kind kind) {
      view.state = state;
      changes.push_back({kind, shard, view.status.pid(), view.status.pid(), silent});
    };
    if (view.state == ShardView::State::kUp && silent > suspect_after_) {
      change(ShardView::State::kSuspect, ShardChange::Kind::kSuspect);
    }
    if (view.state == ShardView::State::kSuspect &&
        (silent > lost_after_ || NobodyListens(view.last_error))) {
      change(ShardView::State::kLost, ShardChange::Kind::kLost);
    }
  }
  return changes;
}

void ShardMonitor::ForgiveSilence(absl::Duration now) {
  for (ShardView& view : shards_) {
    if (view.state == ShardView::State::kUp || view.state == ShardView::State::kSuspect) {
      view.last_seen = now;
    }
  }
}

bool ShardMonitor::all_up() const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [](const ShardView& view) { return view.state == ShardView::State::kUp; });
}

std::optional<uint64_t> ShardMonitor::common_round() const {
  if (shards_.empty()) {
    return std::nullopt;
  }
  for (const ShardView& view : shards_) {
    if (view.state != ShardView::State::kUp || view.round != shards_[0].round) {
      return std::nullopt;
    }
  }
  return shards_[0].round;
}

const ShardJobStatus* ShardMonitor::job(uint32_t shard, const std::string& job,
                                        uint64_t term) const {
  for (const ShardJobStatus& status : shards_[shard].status.job()) {
    if (status.job() == job && status.job_term() == term) {
      return &status;
    }
  }
  return nullptr;
}

std::vector<uint64_t> ShardMonitor::MemoryLimits() const {
  std::vector<uint64_t> limits;
  for (const ShardView& shard : shards_) {
    limits.push_back(shard.status.memory_limit_bytes());
  }
  return limits;
}

std::set<std::string> ShardMonitor::TakenIds() const {
  std::set<std::string> taken;
  for (const ShardView& shard : shards_) {
    for (const ShardJobStatus& status : shard.status.job()) {
      taken.insert(status.job());
    }
  }
  return taken;
}

}  // namespace monsoon
