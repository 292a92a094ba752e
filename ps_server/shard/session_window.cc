#include "ps_server/shard/session_window.h"

#include "common/base/check.h"

namespace monsoon {

SessionWindow::Place SessionWindow::Locate(uint64_t sequence) const {
  if (sequence == last_ + 1) {
    return Place::kNext;
  }
  if (sequence > last_) {
    return Place::kGap;
  }
  if (last_ - sequence < kRememberedDrops && ((dropped_ >> (last_ - sequence)) & 1) != 0) {
    return Place::kDropped;
  }
  return FindRefusal(sequence) != nullptr ? Place::kRefused : Place::kSeen;
}

void SessionWindow::Advance(uint64_t sequence, bool drop) {
  CHECK_EQ(sequence, last_ + 1);
  last_ = sequence;
  dropped_ = (dropped_ << 1) | (drop ? 1 : 0);
}

void SessionWindow::RecordApplied(uint64_t sequence) {
  Advance(sequence, /*drop=*/false);
  ++applied_;
}

void SessionWindow::RecordDropped(uint64_t sequence) { Advance(sequence, /*drop=*/true); }

void SessionWindow::RecordRefused(uint64_t sequence, std::string message) {
  Advance(sequence, /*drop=*/false);
  Remember(sequence, std::move(message));
}

void SessionWindow::Remember(uint64_t sequence, std::string message) {
  refusals_.emplace_back(sequence, std::move(message));
  if (refusals_.size() > kRememberedRefusals) {
    refusals_.erase(refusals_.begin());
  }
}

const std::string& SessionWindow::refusal(uint64_t sequence) const {
  const auto* entry = FindRefusal(sequence);
  CHECK(entry != nullptr);
  return entry->second;
}

const std::pair<uint64_t, std::string>* SessionWindow::FindRefusal(uint64_t sequence) const {
  for (const auto& entry : refusals_) {
    if (entry.first == sequence) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace monsoon
