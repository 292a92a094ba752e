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
  explicit RateWindow(absl::Duration window = absl::Seconds(5)) : window_(window) {}

  // A smaller total than the last one is ignored.
  void Add(absl::Duration now, uint64_t total);
  // Per second between the oldest sample in the window and now; nothing before
  // a sample is kMinSpan old.
  std::optional<double> Rate(absl::Duration now) const;

 private:
  static constexpr absl::Duration kMinSpan = absl::Milliseconds(500);
  // Closer samples are merged, so that the memory is bounded.
  static constexpr absl::Duration kResolution = absl::Milliseconds(50);

  struct Sample {
    absl::Duration at;
    uint64_t total;
  };

  absl::Duration window_;
  std::deque<Sample> samples_;
  uint64_t total_ = 0;
};

}  // namespace monsoon
