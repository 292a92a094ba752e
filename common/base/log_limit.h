// LogLimit: lets one message through in a period and counts the others, so that
// what a peer or a broken disk repeats does not fill the log.
//
//   if (const std::optional<uint64_t> left_out = limit.Take(clock->Now())) {
//     LOG(WARNING) << text << LeftOut(*left_out);
//   }
//
// Thread safe; never waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace monsoon {

class LogLimit {
 public:
  explicit LogLimit(absl::Duration period) : period_ns_(absl::ToInt64Nanoseconds(period)) {}

  // Set: the message may be logged, and so many were not since the last one.
  std::optional<uint64_t> Take(absl::Duration now);

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

  const int64_t period_ns_;
  std::atomic<int64_t> last_ns_{kNever};
  std::atomic<uint64_t> left_out_{0};
};

// " (12 more like it were left out)", or nothing.
std::string LeftOut(uint64_t count);

}  // namespace monsoon
