#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"
#include "common/base/virtual_threads.h"

namespace monsoon {
namespace {

class RealClock : public Clock {
 public:
  absl::Duration Now() const override {
    if (const VirtualThreads* const threads = VirtualThreads::Current()) {
      return threads->Now();
    }
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
  absl::Time WallTime() const override {
    const VirtualThreads* const threads = VirtualThreads::Current();
    return threads != nullptr ? absl::UnixEpoch() + threads->Now() : absl::Now();
  }
};

}  // namespace

const Clock* Clock::Real() {
  static const RealClock clock;
  return &clock;
}

}  // namespace monsoon
