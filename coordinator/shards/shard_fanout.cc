#include "coordinator/shards/shard_fanout.h"

#include <algorithm>

namespace monsoon {

std::vector<uint32_t> ShardFanout::Due(absl::Duration now, const std::vector<bool>& held_back) {
  std::vector<uint32_t> due;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const bool held = shard < held_back.size() && held_back[shard];
    if (shards_[shard].state == Part::State::kDue && now >= shards_[shard].not_before && !held) {
      shards_[shard].state = Part::State::kInFlight;
      due.push_back(shard);
    }
  }
  return due;
}

void ShardFanout::OnResult(uint32_t shard, const absl::Status& status, absl::Duration now) {
  Part& part = shards_[shard];
  if (part.state == Part::State::kDone) {
    return;
  }
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status)) {
    part.state = Part::State::kDue;
    part.not_before = now + kCommandRetry;
    return;
  }
  part.state = Part::State::kDone;
  if (!status.ok() && error_.ok()) {
    error_ = status;
  }
}

void ShardFanout::Skip(uint32_t shard) { shards_[shard].state = Part::State::kDone; }

bool ShardFanout::done() const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [](const Part& part) { return part.state == Part::State::kDone; });
}

}  // namespace monsoon
