#include "common/codec/largest.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace monsoon {
namespace {

// Magnitudes are first sorted by these upper bits: exponent and three more.
constexpr int kLowBits = 20;

}  // namespace

LargestThreshold FindLargest(std::span<const float> in, size_t k) {
  std::array<uint32_t, 1u << (31 - kLowBits)> counts{};
  for (const float value : in) {
    ++counts[Magnitude(value) >> kLowBits];
  }
  size_t above = 0;
  size_t bin = counts.size() - 1;
  while (above + counts[bin] < k) {
    above += counts[bin--];
  }
  std::vector<uint32_t> candidates;
  candidates.reserve(counts[bin]);
  for (const float value : in) {
    if (Magnitude(value) >> kLowBits == bin) {
      candidates.push_back(Magnitude(value));
    }
  }
  const size_t rank = k - above;  // among them, from 1
  const auto at = candidates.begin() + static_cast<ptrdiff_t>(rank - 1);
  std::nth_element(candidates.begin(), at, candidates.end(), std::greater<>());
  const size_t larger = static_cast<size_t>(
      std::count_if(candidates.begin(), at, [at](uint32_t m) { return m > *at; }));
  return {*at, rank - larger};
}

}  // namespace monsoon
