// AwakeTime: a clock's time without most of what passed while this process stood still (SIGSTOP, a
// machine that slept or swapped). Nobody could be heard then, so that the gap must not count as
// others' silence: time goes on by a step of bounded length at most, and of a long gap it tells.
//
// A pure state machine. Not thread safe.
#pragma once

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace monsoon {

class AwakeTime {
 public:
  // Whoever is silent for `lost_after` is lost. At is called far more often than that.
  explicit AwakeTime(absl::Duration lost_after)
      : longest_step_(lost_after / 4), gap_(lost_after / 2) {}

  // `clock`: what the clock says, which never goes back.
  absl::Duration At(absl::Duration clock) {
    const absl::Duration step =
        last_ == -absl::InfiniteDuration() ? absl::ZeroDuration() : clock - last_;
    stood_still_ |= step > gap_;
    skipped_ += std::max(absl::ZeroDuration(), step - longest_step_);
    last_ = clock;
    return last_ - skipped_;
  }

  // Asked in each tick, in which others are asked and found silent. True once after a gap, be it
  // one of the ticks alone: nobody was silent, as far as this process can know.
  bool TakeGap() {
    const bool late = last_ - std::exchange(ticked_, last_) > gap_;
    return std::exchange(stood_still_, false) || late;
  }

 private:
  const absl::Duration longest_step_;
  const absl::Duration gap_;
  absl::Duration last_ = -absl::InfiniteDuration();
  absl::Duration ticked_ = absl::InfiniteDuration();  // the last time that TakeGap was asked
  absl::Duration skipped_ = absl::ZeroDuration();
  bool stood_still_ = false;
};

}  // namespace monsoon
