// StepKey: what the randomness of one training step depends on, so that a
// repeated step draws the same dropout masks on any backend.
#pragma once

#include <cstdint>

namespace monsoon {

struct StepKey {
  uint64_t seed = 0;
  uint32_t worker = 0;
  uint64_t step = 0;
};

}  // namespace monsoon
