// What TOP_K and TOP_K_2BIT have in common: which values are the k with the largest
// |x|; of equals the first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace monsoon {

// Ordered as the magnitudes; infinity and NaN come above all others.
inline uint32_t Magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

// The k-th largest magnitude of some values, and how many of exactly that one belong to
// the k largest.
struct LargestThreshold {
  uint32_t magnitude = 0;
  size_t equals = 0;
};

// `k` in [1, in.size()].
LargestThreshold FindLargest(std::span<const float> in, size_t k);

// Calls take(i) for the index of each of the k largest, ascending.
template <typename Take>
void ForLargest(std::span<const float> in, size_t k, Take take) {
  const LargestThreshold threshold = FindLargest(in, k);
  size_t equals = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t magnitude = Magnitude(in[i]);
    if (magnitude < threshold.magnitude ||
        (magnitude == threshold.magnitude && equals++ >= threshold.equals)) {
      continue;
    }
    take(i);
  }
}

}  // namespace monsoon
