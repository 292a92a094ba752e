#include "common/codec/half.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kInfinity = 0x7f800000u;

// The loops below vectorise: no branches, no calls, one width.

uint16_t ToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & kSign;
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t rounded = magnitude + 0x7fffu + ((magnitude >> 16) & 1);
  // Finite values stay finite; the quiet bit keeps a NaN one.
  constexpr uint32_t kLargest = 0x7f7f0000u;
  const uint32_t finite = rounded < kInfinity ? rounded : kLargest;
  const uint32_t special = magnitude > kInfinity ? magnitude | 0x00400000u : magnitude;
  const uint32_t result = magnitude < kInfinity ? finite : special;
  return static_cast<uint16_t>((sign | result) >> 16);
}

float FromBfloat16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

uint16_t ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits & kSign) >> 16;
  const uint32_t magnitude = bits & ~kSign;
  // Normal results: the exponent's bias changes from 127 to 15, 13 bits go.
  const uint32_t odd = (magnitude >> 13) & 1;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  // Subnormal results: adding 0.5 puts the quantum of the sum at 2^-24, so the
  // addition itself rounds.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  constexpr uint32_t kSmallestNormal = 113u << 23;  // 2^-14
  constexpr uint32_t kLargest = 0x7bffu;            // 65504
  const uint32_t small = magnitude < kSmallestNormal ? subnormal : normal;
  const uint32_t capped = magnitude >= (143u << 23) || small > kLargest ? kLargest : small;
  const uint32_t special = magnitude > kInfinity ? 0x7e00u : 0x7c00u;
  const uint32_t result = magnitude < kInfinity ? capped : special;
  return static_cast<uint16_t>(sign | result);
}

float FromFloat16(uint16_t half) {
  const uint32_t sign = (uint32_t{half} & 0x8000u) << 16;
  const uint32_t magnitude = uint32_t{half} & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  const uint32_t special = (magnitude << 13) | kInfinity;
  const uint32_t finite = magnitude < 0x0400u ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(sign | (magnitude < 0x7c00u ? finite : special));
}

// The first half whose exponent has all of these bits.
std::optional<uint64_t> FirstWithExponent(uint16_t exponent, std::span<const std::byte> in) {
  for (size_t i = 0; i < in.size() / 2; ++i) {
    uint16_t half;
    std::memcpy(&half, in.data() + 2 * i, sizeof(half));
    if ((half & exponent) == exponent) {
      return i;
    }
  }
  return std::nullopt;
}

template <auto kConvert>
void EncodeAll(std::span<const float> in, std::span<std::byte> out) {
  CHECK_EQ(out.size(), 2 * in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const uint16_t half = kConvert(in[i]);
    std::memcpy(out.data() + 2 * i, &half, sizeof(half));
  }
}

template <auto kConvert>
void DecodeAll(std::span<const std::byte> in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, in.data() + 2 * i, sizeof(half));
    out[i] = kConvert(half);
  }
}

}  // namespace

void Bfloat16Codec::Encode(std::span<const float> in, std::span<std::byte> out) const {
  EncodeAll<ToBfloat16>(in, out);
}

absl::Status Bfloat16Codec::Decode(std::span<const std::byte> in, std::span<float> out) const {
  RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
  DecodeAll<FromBfloat16>(in, out);
  return absl::OkStatus();
}

void Float16Codec::Encode(std::span<const float> in, std::span<std::byte> out) const {
  EncodeAll<ToFloat16>(in, out);
}

absl::Status Float16Codec::Decode(std::span<const std::byte> in, std::span<float> out) const {
  RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
  DecodeAll<FromFloat16>(in, out);
  return absl::OkStatus();
}

std::optional<uint64_t> Bfloat16Codec::FirstNonFinite(std::span<const std::byte> in) const {
  return FirstWithExponent(0x7f80, in);
}

std::optional<uint64_t> Float16Codec::FirstNonFinite(std::span<const std::byte> in) const {
  return FirstWithExponent(0x7c00, in);
}

}  // namespace monsoon
