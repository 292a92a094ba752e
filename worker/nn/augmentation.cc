#include "worker/nn/augmentation.h"

#include <array>

#include "common/base/random.h"

namespace monsoon {
namespace {

// In [0, bound).
int64_t Below(uint32_t bits, uint64_t bound) { return static_cast<int64_t>((bits * bound) >> 32); }

}  // namespace

Augmentation DrawAugmentation(const LayerPlan& layer, const StepKey* key, size_t sample) {
  const uint64_t rows = layer.input.height - layer.output.height;
  const uint64_t columns = layer.input.width - layer.output.width;
  if (key == nullptr || !key->samples.empty()) {
    return {static_cast<int64_t>(rows / 2), static_cast<int64_t>(columns / 2), false};
  }
  // (worker, step) and (layer, sample) need more bits than a stream's `sub` has: a first block
  // turns the former into a key, as for dropout masks.
  constexpr uint64_t kKind = static_cast<uint64_t>(StreamKind::kAugmentation) << 32;
  const std::array<uint32_t, 4> derived = Philox4x32(key->seed, kKind | key->worker, key->step);
  const uint64_t stream_key = (static_cast<uint64_t>(derived[1]) << 32) | derived[0];
  const std::array<uint32_t, 4> bits = Philox4x32(stream_key, kKind | layer.index, 2 * sample);
  const std::array<uint32_t, 4> more = Philox4x32(stream_key, kKind | layer.index, 2 * sample + 1);
  const auto shift = static_cast<int64_t>(layer.shift);
  return {Below(bits[0], rows + 1) + Below(bits[2], 2 * layer.shift + 1) - shift,
          Below(bits[1], columns + 1) + Below(bits[3], 2 * layer.shift + 1) - shift,
          layer.flip && more[0] >> 31 != 0};
}

}  // namespace monsoon
