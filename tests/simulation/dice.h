// Dice: draws by (seed, how many were drawn). Not thread safe.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/base/random.h"

namespace monsoon::simulation {

class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed, StreamKind::kTest) {}

  // Below `bound`, which is not 0.
  uint32_t Below(uint32_t bound) { return stream_.Below(drawn_++, bound); }
  bool Once(uint32_t in) { return Below(in) == 0; }
  absl::Duration Between(absl::Duration least, absl::Duration most) {
    const auto width = static_cast<uint32_t>((most - least) / absl::Microseconds(1));
    return least + absl::Microseconds(Below(width + 1));
  }

 private:
  const PhiloxStream stream_;
  uint64_t drawn_ = 0;
};

}  // namespace monsoon::simulation
