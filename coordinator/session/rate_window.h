// RateWindow: a growing total's rate over the last seconds.
//
// `now` (since any origin) never goes back. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace monsoon {

class RateWindow {
 public:
  // Samples closer than `resolution` are merged, so that the memory is bounded.
  explicit RateWindow(absl::Duration window = absl::Seconds(5),
                      absl::Duration resolution = absl::Milliseconds(50))
      : window_(window), resolution_(resolution) {}

  // A smaller total than the last one is ignored.
  void Add(absl::Duration now, uint64_t total);
  // Per second between the oldest sample in the window and now; nothing before
  // a sample is kMinSpan old.
  std::optional<double> Rate(absl::Duration now) const { return Rate(now, window_); }
  // For an estimate of what is to come: over the last half of what is known, but at least
  // `shortest`. The longer a job runs, the less it goes by what happened just now.
  std::optional<double> SteadyRate(absl::Duration now, absl::Duration shortest) const;

 private:
  static constexpr absl::Duration kMinSpan = absl::Milliseconds(500);

  struct Sample {
    absl::Duration at;
    uint64_t total;
  };

  // Since the newest sample that is `within` old, or the oldest one.
  std::optional<double> Rate(absl::Duration now, absl::Duration within) const;

  absl::Duration window_;
  absl::Duration resolution_;
  std::deque<Sample> samples_;
  uint64_t total_ = 0;
};

}  // namespace monsoon
