// What PTX instructions compute, for translated kernels: the values that the PTX manual
// states, on plain operands. Approximate instructions (ex2.approx and its kin) are
// computed to nearest, which their bounds permit and no GPU promises.
#pragma once

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace monsoon::emulator {

// Bits of the two 16-bit formats; converted, never computed with.
struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// The same bits as another type of the same size; integers of another size are cut off
// or extended by the sign of `From`.
template <typename To, typename From>
To As(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    return static_cast<To>(value);
  } else {
    return std::bit_cast<To>(value);
  }
}

template <typename To>
To Bits(uint64_t bits) {
  using Word = std::conditional_t<sizeof(To) == 4, uint32_t, uint64_t>;
  return std::bit_cast<To>(static_cast<Word>(bits));
}

template <typename T>
bool Unordered(T a, T b) {
  return std::isnan(a) || std::isnan(b);
}

// .ftz: what is subnormal counts as zero of its sign.
template <typename T>
T Flush(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(value) < std::numeric_limits<T>::min() ? std::copysign(T{0}, value) : value;
  } else {
    return value;
  }
}

// .sat: a NaN becomes 0.
template <typename T>
T Saturate(T value) {
  return !(value > 0) ? T{0} : value > 1 ? T{1} : value;
}

enum class Op { kAdd, kSub, kMul, kDiv };

// In one of <cfenv>'s directions; slow, and rare.
float Rounded(int direction, Op op, float a, float b);
double Rounded(int direction, Op op, double a, double b);
float RoundedFma(int direction, float a, float b, float c);
double RoundedFma(int direction, double a, double b, double c);

inline float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

// Of a NaN and a number, the number, unless `nan`; -0 is below +0.
template <typename T>
T Min(T a, T b, bool nan = false) {
  if constexpr (std::is_floating_point_v<T>) {
    if (Unordered(a, b)) {
      const bool none = nan || (std::isnan(a) && std::isnan(b));
      return none ? std::numeric_limits<T>::quiet_NaN() : std::isnan(a) ? b : a;
    }
    return a < b || (a == b && std::signbit(a)) ? a : b;
  } else {
    return std::min(a, b);
  }
}

template <typename T>
T Max(T a, T b, bool nan = false) {
  if constexpr (std::is_floating_point_v<T>) {
    return Unordered(a, b) ? Min(a, b, nan) : -Min(-a, -b);
  } else {
    return std::max(a, b);
  }
}

template <typename T>
T Absolute(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(value);
  } else {
    return value < 0 ? static_cast<T>(0u - static_cast<std::make_unsigned_t<T>>(value)) : value;
  }
}

// PTX's order: the sign of `sign`, the rest of `magnitude`.
template <typename T>
T CopySign(T sign, T magnitude) {
  return std::copysign(magnitude, sign);
}

template <typename T>
T Reciprocal(T value) {
  return T{1} / value;
}
template <typename T>
T SquareRoot(T value) {
  return std::sqrt(value);
}
template <typename T>
T ReciprocalRoot(T value) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(value)));
}
inline float PowerOfTwo(float value) { return static_cast<float>(std::exp2(double{value})); }
inline float Log2(float value) { return static_cast<float>(std::log2(double{value})); }
inline float Sine(float value) { return static_cast<float>(std::sin(double{value})); }
inline float Cosine(float value) { return static_cast<float>(std::cos(double{value})); }
inline float HyperbolicTangent(float value) { return static_cast<float>(std::tanh(double{value})); }

template <typename T>
struct Twice;
template <>
struct Twice<uint16_t> : std::type_identity<uint32_t> {};
template <>
struct Twice<int16_t> : std::type_identity<int32_t> {};
template <>
struct Twice<uint32_t> : std::type_identity<uint64_t> {};
template <>
struct Twice<int32_t> : std::type_identity<int64_t> {};
template <>
struct Twice<uint64_t> : std::type_identity<unsigned __int128> {};
template <>
struct Twice<int64_t> : std::type_identity<__int128> {};

template <typename T>
typename Twice<T>::type MulWide(T a, T b) {
  return static_cast<typename Twice<T>::type>(a) * b;
}

template <typename T>
T MulHigh(T a, T b) {
  return static_cast<T>(MulWide(a, b) >> (8 * sizeof(T)));
}

template <typename T>
T SumOfDifference(T a, T b, T c) {
  return static_cast<T>(c + (a < b ? b - a : a - b));
}

// Shifts by the width and more give zeros, or signs.
template <typename T>
T ShiftLeft(T value, uint32_t by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(value << by);
}
template <typename T>
T ShiftRight(T value, uint32_t by) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  if (by >= kBits) {
    return value < 0 ? static_cast<T>(-1) : T{0};
  }
  return static_cast<T>(value >> by);
}

inline uint32_t FunnelShiftLeft(uint32_t low, uint32_t high, uint32_t by, bool clamp) {
  by = clamp ? std::min(by, 32u) : by & 31;
  const uint64_t both = uint64_t{high} << 32 | low;
  return static_cast<uint32_t>((both << by) >> 32);
}
inline uint32_t FunnelShiftRight(uint32_t low, uint32_t high, uint32_t by, bool clamp) {
  by = clamp ? std::min(by, 32u) : by & 31;
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> by);
}

// bfe: `length` bits from `place`, extended by the sign for signed types.
template <typename T>
T ExtractField(T value, uint32_t place, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  using Word = std::make_unsigned_t<T>;
  place &= 0xFF;
  length &= 0xFF;
  if (length == 0) {
    return 0;
  }
  const uint32_t last = std::min(place + length - 1, kBits - 1);
  const bool fill = std::is_signed_v<T> && (static_cast<Word>(value) >> last & 1) != 0;
  Word result = place < kBits ? static_cast<Word>(value) >> place : Word{0};
  const uint32_t valid = place < kBits ? std::min(length, kBits - place) : 0;
  const Word mask = valid >= kBits ? ~Word{0} : (Word{1} << valid) - 1;
  result &= mask;
  return static_cast<T>(fill ? result | ~mask : result);
}

template <typename T>
T InsertField(T field, T into, uint32_t place, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  place &= 0xFF;
  length &= 0xFF;
  if (place >= kBits || length == 0) {
    return into;
  }
  const T mask = static_cast<T>((length >= kBits ? ~T{0} : (T{1} << length) - 1) << place);
  return static_cast<T>((into & ~mask) | (ShiftLeft(field, place) & mask));
}

template <typename T>
T ReverseBits(T value) {
  T result = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i) {
    result = static_cast<T>(result << 1 | (value >> i & 1));
  }
  return result;
}
template <typename T>
uint32_t CountOnes(T value) {
  return static_cast<uint32_t>(std::popcount(value));
}
template <typename T>
uint32_t CountLeadingZeros(T value) {
  return static_cast<uint32_t>(std::countl_zero(value));
}
// The place of the highest bit that is not the sign; all ones where there is none.
template <typename T>
uint32_t HighestBit(T value) {
  using Word = std::make_unsigned_t<T>;
  const Word word = value < 0 ? ~static_cast<Word>(value) : static_cast<Word>(value);
  return word == 0 ? ~0u : static_cast<uint32_t>(8 * sizeof(T) - 1 - std::countl_zero(word));
}

inline uint32_t PermuteBytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t pick = selector >> (4 * i) & 0xF;
    uint32_t byte = bytes >> (8 * (pick & 7)) & 0xFF;
    if ((pick & 8) != 0) {
      byte = (byte & 0x80) != 0 ? 0xFF : 0;
    }
    result |= byte << (8 * i);
  }
  return result;
}

// lop3: bit by bit, the function of three bits whose table is `table`.
inline uint32_t AnyLogic(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    if ((table >> i & 1) != 0) {
      result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
    }
  }
  return result;
}

enum class Integral { kNearest, kZero, kDown, kUp };

template <typename T>
T ToIntegral(T value, Integral how) {
  switch (how) {
    case Integral::kNearest:
      return std::nearbyint(value);
    case Integral::kZero:
      return std::trunc(value);
    case Integral::kDown:
      return std::floor(value);
    case Integral::kUp:
      return std::ceil(value);
  }
  return value;
}

float FromHalf(Half value);
float FromBfloat16(Bfloat16 value);
// To nearest, ties to even.
Half ToHalf(float value);
Bfloat16 ToBfloat16(float value);

// Clamped to the type; a NaN becomes 0.
template <typename To, typename From>
To ToInteger(From value, Integral how) {
  double wide;
  if constexpr (std::is_same_v<From, Half>) {
    wide = FromHalf(value);
  } else if constexpr (std::is_same_v<From, Bfloat16>) {
    wide = FromBfloat16(value);
  } else {
    wide = value;
  }
  if (std::isnan(wide)) {
    return 0;
  }
  wide = ToIntegral(wide, how);
  // The limits, rounded up to a double where they have none.
  if (wide >= static_cast<double>(std::numeric_limits<To>::max())) {
    return std::numeric_limits<To>::max();
  }
  if (wide <= static_cast<double>(std::numeric_limits<To>::min())) {
    return std::numeric_limits<To>::min();
  }
  return static_cast<To>(wide);
}

// The nearest float of a double or an integer in a direction of <cfenv>.
float ToFloatRounded(int direction, double value);
float ToFloatRounded(int direction, int64_t value);
float ToFloatRounded(int direction, uint64_t value);

template <typename To, typename From>
To ToFloat(From value, int direction) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Half>) {
    return ToFloat<To>(FromHalf(value), direction);
  } else if constexpr (std::is_same_v<From, Bfloat16>) {
    return ToFloat<To>(FromBfloat16(value), direction);
  } else if constexpr (std::is_same_v<To, Half>) {
    return ToHalf(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Bfloat16>) {
    return ToBfloat16(static_cast<float>(value));
  } else {
    if (direction != FE_TONEAREST) {
      if constexpr (std::is_same_v<To, float> && std::is_floating_point_v<From>) {
        return ToFloatRounded(direction, static_cast<double>(value));
      } else if constexpr (std::is_same_v<To, float> && std::is_signed_v<From>) {
        return ToFloatRounded(direction, static_cast<int64_t>(value));
      } else if constexpr (std::is_same_v<To, float>) {
        return ToFloatRounded(direction, static_cast<uint64_t>(value));
      }
    }
    return static_cast<To>(value);
  }
}

// Two halves in a word, the first in the upper one.
template <typename T>
uint32_t Pack(float upper, float lower) {
  return uint32_t{ToFloat<T>(upper, FE_TONEAREST).bits} << 16 |
         ToFloat<T>(lower, FE_TONEAREST).bits;
}

template <typename To, typename From>
To ClampTo(From value) {
  using Wide = __int128;
  const Wide low = std::numeric_limits<To>::min();
  const Wide high = std::numeric_limits<To>::max();
  return static_cast<To>(std::clamp(static_cast<Wide>(value), low, high));
}

}  // namespace monsoon::emulator
