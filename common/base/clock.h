// Clock: the time as an interface, so that state machines can be tested and
// simulated without waiting.
#pragma once

#include "absl/time/time.h"

namespace monsoon {

class Clock {
 public:
  virtual ~Clock() = default;
  // Time since an arbitrary origin; never goes back. For deadlines and
  // durations.
  virtual absl::Duration Now() const = 0;
  // The calendar time, which may jump. For people only.
  virtual absl::Time WallTime() const = 0;

  // The machine's clocks; for a virtual thread those that run it (virtual_threads.h).
  // Thread safe, lives for ever.
  static const Clock* Real();
};

// Stands still until told otherwise. Not thread safe.
class ManualClock : public Clock {
 public:
  absl::Duration Now() const override { return now_; }
  absl::Time WallTime() const override { return absl::UnixEpoch() + now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Duration now_ = absl::ZeroDuration();
};

}  // namespace monsoon
