// float32 to bfloat16 and IEEE binary16 and back, rounding to nearest even, on
// the bits: the same on the GPU and the CPU. Values too large become infinite,
// NaN stays NaN. Half values travel as uint16_t; HalfType says which they are.
#pragma once

#include <cstdint>
#include <cstring>

#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

enum class HalfType { kBfloat16, kFloat16 };

MONSOON_PORTABLE uint32_t FloatBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

MONSOON_PORTABLE float BitsToFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

MONSOON_PORTABLE bool IsFiniteBits(float value) {
  return (FloatBits(value) & 0x7F800000u) != 0x7F800000u;
}

MONSOON_PORTABLE uint16_t ToBfloat16(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);  // Quiet, so that it stays a NaN.
  }
  // Half a unit of what is cut off, and one more when the rest is odd.
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

MONSOON_PORTABLE float FromBfloat16(uint16_t half) {
  return BitsToFloat(static_cast<uint32_t>(half) << 16);
}

// value / 2^shift in whole units, to nearest even; shift in 1..24.
MONSOON_PORTABLE uint32_t RoundedShift(uint32_t value, uint32_t shift) {
  const uint32_t quotient = value >> shift;
  const uint32_t rest = value & ((1u << shift) - 1u);
  const uint32_t middle = 1u << (shift - 1u);
  return quotient + (rest > middle || (rest == middle && (quotient & 1u)) ? 1u : 0u);
}

MONSOON_PORTABLE uint16_t ToFloat16(float value) {
  const uint32_t bits = FloatBits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u);
  }
  if (magnitude >= 0x477FF000u) {  // 65520: halfway from the largest to infinity.
    return static_cast<uint16_t>(sign | 0x7C00u);
  }
  if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal.
    // A carry out of the mantissa rightly goes into the exponent.
    return static_cast<uint16_t>(sign | (RoundedShift(magnitude, 13) - (112u << 10)));
  }
  if (magnitude < 0x33000000u) {  // Under 2^-25 all goes to zero.
    return static_cast<uint16_t>(sign);
  }
  // Units of 2^-24: the mantissa with its leading one, shifted.
  const uint32_t exponent = magnitude >> 23;
  const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
  return static_cast<uint16_t>(sign | RoundedShift(mantissa, 126u - exponent));
}

MONSOON_PORTABLE float FromFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu;
  const uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0x1Fu) {
    return BitsToFloat(sign | 0x7F800000u | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return BitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

MONSOON_PORTABLE uint16_t ToHalf(HalfType type, float value) {
  return type == HalfType::kBfloat16 ? ToBfloat16(value) : ToFloat16(value);
}

MONSOON_PORTABLE float FromHalf(HalfType type, uint16_t half) {
  return type == HalfType::kBfloat16 ? FromBfloat16(half) : FromFloat16(half);
}

}  // namespace monsoon::cuda
