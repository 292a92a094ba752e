#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace monsoon {
namespace {

class RealClock : public Clock {
 public:
  absl::Duration Now() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
  absl::Time WallTime() const override { return absl::Now(); }
};

}  // namespace

const Clock* Clock::Real() {
  static const RealClock clock;
  return &clock;
}

}  // namespace monsoon
