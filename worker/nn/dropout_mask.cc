#include "worker/nn/dropout_mask.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/base/random.h"

namespace monsoon {
namespace {

// (worker, step) and (sample, layer) need more bits than a stream's `sub` has:
// a first block turns the former into the key of streams of their own.
uint64_t DeriveKey(uint64_t seed, uint64_t high, uint64_t low) {
  const std::array<uint32_t, 4> bits = Philox4x32(seed, high, low);
  return (static_cast<uint64_t>(bits[1]) << 32) | bits[0];
}

void Fill(uint64_t key, uint64_t stream, double rate, std::span<float> mask) {
  const uint64_t drop_below = static_cast<uint64_t>(rate * 0x1p32);
  const float kept = static_cast<float>(1.0 / (1.0 - rate));
  for (size_t i = 0; i < mask.size(); i += 4) {
    const std::array<uint32_t, 4> bits = Philox4x32(key, stream, i / 4);
    const size_t count = std::min<size_t>(4, mask.size() - i);
    for (size_t j = 0; j < count; ++j) {
      mask[i + j] = bits[j] < drop_below ? 0.0f : kept;
    }
  }
}

}  // namespace

void FillDropoutMask(const StepKey& key, uint32_t layer, double rate, std::span<float> mask) {
  if (key.samples.empty()) {
    constexpr uint64_t kKind = static_cast<uint64_t>(StreamKind::kDropout) << 32;
    Fill(DeriveKey(key.seed, kKind | key.worker, key.step), kKind | layer, rate, mask);
    return;
  }
  constexpr uint64_t kKind = static_cast<uint64_t>(StreamKind::kSampleDropout) << 32;
  CHECK_EQ(mask.size() % key.samples.size(), 0u);
  const size_t values = mask.size() / key.samples.size();
  for (size_t n = 0; n < key.samples.size(); ++n) {
    Fill(DeriveKey(key.seed, kKind, key.samples[n]), kKind | layer, rate,
         mask.subspan(n * values, values));
  }
}

}  // namespace monsoon
