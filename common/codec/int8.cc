#include "common/codec/int8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr float kSteps = 127.0f;
// Adding and subtracting it rounds a float below 2^22 to a whole number.
constexpr float kRounder = 12582912.0f;

size_t Blocks(size_t floats) { return (floats + kInt8BlockFloats - 1) / kInt8BlockFloats; }

// Compared as integers, so that NaN is the largest of all.
float LargestMagnitude(std::span<const float> block) {
  uint32_t largest = 0;
  for (const float value : block) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return std::bit_cast<float>(largest);
}

}  // namespace

size_t Int8Codec::EncodedBytes(size_t floats) const {
  return floats + sizeof(float) * Blocks(floats);
}

void Int8Codec::Encode(std::span<const float> in, std::span<std::byte> out) const {
  CHECK_EQ(out.size(), EncodedBytes(in.size()));
  std::byte* const scales = out.data();
  auto* const values = reinterpret_cast<int8_t*>(out.data() + sizeof(float) * Blocks(in.size()));
  for (size_t block = 0; block < Blocks(in.size()); ++block) {
    const size_t begin = block * kInt8BlockFloats;
    const auto floats = in.subspan(begin, std::min(kInt8BlockFloats, in.size() - begin));
    float scale = LargestMagnitude(floats) / kSteps;
    const float inverse = 1.0f / scale;
    // Zeros, values so small that nothing is lost with them, or not finite.
    const bool empty = !std::isfinite(inverse) || !std::isfinite(scale);
    if (empty && std::isfinite(scale)) {
      scale = 0.0f;
    }
    std::memcpy(scales + block * sizeof(float), &scale, sizeof(scale));
    const float factor = empty ? 0.0f : inverse;
    for (size_t i = 0; i < floats.size(); ++i) {
      const float q = empty ? 1.0f : (floats[i] * factor + kRounder) - kRounder;
      values[begin + i] = static_cast<int8_t>(std::clamp(q, -kSteps, kSteps));
    }
  }
}

absl::Status Int8Codec::Decode(std::span<const std::byte> in, std::span<float> out) const {
  RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
  const auto* const values =
      reinterpret_cast<const int8_t*>(in.data() + sizeof(float) * Blocks(out.size()));
  for (size_t block = 0; block < Blocks(out.size()); ++block) {
    float scale;
    std::memcpy(&scale, in.data() + block * sizeof(float), sizeof(scale));
    const size_t begin = block * kInt8BlockFloats;
    const size_t end = std::min(out.size(), begin + kInt8BlockFloats);
    for (size_t i = begin; i < end; ++i) {
      out[i] = scale * static_cast<float>(values[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
