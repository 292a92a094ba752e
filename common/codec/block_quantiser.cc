#include "common/codec/block_quantiser.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace monsoon {
namespace {

// Adding and subtracting it rounds a float below 2^22 to a whole number.
constexpr float kRounder = 12582912.0f;

// Compared as integers, so that NaN is the largest of all.
float LargestMagnitude(std::span<const float> block) {
  uint32_t largest = 0;
  for (const float value : block) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return std::bit_cast<float>(largest);
}

}  // namespace

float QuantiseBlock(std::span<const float> block, float steps, int8_t* q) {
  float scale = LargestMagnitude(block) / steps;
  const float inverse = 1.0f / scale;
  // Zeros, values so small that nothing is lost with them, or not finite.
  const bool empty = !std::isfinite(inverse) || !std::isfinite(scale);
  if (empty && std::isfinite(scale)) {
    scale = 0.0f;
  }
  const float factor = empty ? 0.0f : inverse;
  for (size_t i = 0; i < block.size(); ++i) {
    const float whole = empty ? 1.0f : (block[i] * factor + kRounder) - kRounder;
    q[i] = static_cast<int8_t>(std::clamp(whole, -steps, steps));
  }
  return scale;
}

}  // namespace monsoon
