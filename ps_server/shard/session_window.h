// SessionWindow: which pushes of one session one stripe has seen. Sequences
// start at 1 and come without gaps, so the last one says it all; refused ones
// are remembered, so that a repeated record gets the verdict it got first.
//
// A pure state machine. Thread safety: none; the stripe's lock guards it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace monsoon {

class SessionWindow {
 public:
  // Older refusals are forgotten and answered as duplicates. Far more than a
  // client has unacknowledged.
  static constexpr size_t kRememberedRefusals = 64;
  static constexpr uint64_t kRememberedDrops = 64;

  SessionWindow() = default;
  // As a checkpoint has it: sequences up to `last` are seen, `applied` of them applied; of
  // `dropped` below.
  SessionWindow(uint64_t last, uint64_t applied, uint64_t dropped = 0)
      : last_(last), applied_(applied), dropped_(dropped) {}
  // Of these `sequence`, above those remembered, was refused.
  void Remember(uint64_t sequence, std::string message);

  enum class Place {
    kNext,     // last + 1: to be applied or refused now
    kSeen,     // at or below last: acknowledge, do not apply
    kRefused,  // seen, and refused then: refuse again with refusal()
    kDropped,  // seen, and dropped then
    kGap,      // beyond last + 1
  };
  Place Locate(uint64_t sequence) const;

  // Consume `sequence`, which is at kNext.
  void RecordApplied(uint64_t sequence);
  void RecordRefused(uint64_t sequence, std::string message);
  void RecordDropped(uint64_t sequence);

  // Why `sequence`, at kRefused, was refused.
  const std::string& refusal(uint64_t sequence) const;

  uint64_t last() const { return last_; }
  // Records applied; the others up to last() were refused or dropped.
  uint64_t applied() const { return applied_; }
  // Which of the newest kRememberedDrops were dropped: bit i stands for sequence last() - i.
  uint64_t dropped() const { return dropped_; }
  // Those remembered, rising: (sequence, why).
  const std::vector<std::pair<uint64_t, std::string>>& refusals() const { return refusals_; }

 private:
  const std::pair<uint64_t, std::string>* FindRefusal(uint64_t sequence) const;
  void Advance(uint64_t sequence, bool drop);

  uint64_t last_ = 0;
  uint64_t applied_ = 0;
  uint64_t dropped_ = 0;
  // A vector: nothing is allocated before there is a refusal.
  std::vector<std::pair<uint64_t, std::string>> refusals_;
};

}  // namespace monsoon
