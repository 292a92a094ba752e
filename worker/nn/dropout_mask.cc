#include "worker/nn/dropout_mask.h"

#include <algorithm>
#include <array>

#include "common/base/random.h"

namespace monsoon {

void FillDropoutMask(const StepKey& key, uint32_t layer, double rate, std::span<float> mask) {
  constexpr uint64_t kKind = static_cast<uint64_t>(StreamKind::kDropout) << 32;
  // (worker, step) needs more bits than a stream's `sub` has: a first block
  // turns them into the key of the step's own streams.
  const std::array<uint32_t, 4> step_bits = Philox4x32(key.seed, kKind | key.worker, key.step);
  const uint64_t step_key = (static_cast<uint64_t>(step_bits[1]) << 32) | step_bits[0];
  const uint64_t drop_below = static_cast<uint64_t>(rate * 0x1p32);
  const float kept = static_cast<float>(1.0 / (1.0 - rate));
  for (size_t i = 0; i < mask.size(); i += 4) {
    const std::array<uint32_t, 4> bits = Philox4x32(step_key, kKind | layer, i / 4);
    const size_t count = std::min<size_t>(4, mask.size() - i);
    for (size_t j = 0; j < count; ++j) {
      mask[i + j] = bits[j] < drop_below ? 0.0f : kept;
    }
  }
}

}  // namespace monsoon
