// LeaseLength: how many steps the members of a group are told to take at a time. At the end of a
// lease all stand at the same step, which is where joiners come in and the test set is run; in
// between nobody asks. So leases are made to last about half a second, whatever a step takes.
//
// A pure state machine: `now` (since any origin) never goes back. Not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace monsoon {

class LeaseLength {
 public:
  static constexpr uint64_t kFirst = 4;
  static constexpr uint64_t kMost = 1 << 16;

  // Steps of the first lease of a group.
  uint64_t Begin(absl::Duration now) {
    last_ = now;
    return steps_;
  }
  // Of the next one, which is given while the members are at the last one.
  uint64_t Next(absl::Duration now) {
    if (last_) {
      const absl::Duration taken = now - *last_;
      if (taken < absl::Milliseconds(250)) {
        steps_ = std::min(steps_ * 2, kMost);
      } else if (taken > absl::Seconds(1)) {
        steps_ = std::max<uint64_t>(steps_ / 2, 1);
      }
    }
    return Begin(now);
  }
  // The members have stood still: what has passed since says nothing.
  void Rest() { last_.reset(); }

 private:
  uint64_t steps_ = kFirst;
  std::optional<absl::Duration> last_;
};

}  // namespace monsoon
