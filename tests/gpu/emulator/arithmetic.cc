// Compiled with -frounding-math: the compiler must not compute ahead of fesetround.
#include "tests/gpu/emulator/arithmetic.h"

namespace monsoon::emulator {
namespace {

class Direction {
 public:
  explicit Direction(int direction) { std::fesetround(direction); }
  ~Direction() { std::fesetround(FE_TONEAREST); }
};

template <typename T>
T Compute(int direction, Op op, T a, T b) {
  const Direction set(direction);
  volatile T x = a;
  volatile T y = b;
  volatile T result = 0;
  switch (op) {
    case Op::kAdd:
      result = x + y;
      break;
    case Op::kSub:
      result = x - y;
      break;
    case Op::kMul:
      result = x * y;
      break;
    case Op::kDiv:
      result = x / y;
      break;
  }
  return result;
}

template <typename T>
T ComputeFma(int direction, T a, T b, T c) {
  const Direction set(direction);
  volatile T x = a;
  volatile T result = std::fma(T{x}, b, c);
  return result;
}

template <typename T>
float Convert(int direction, T value) {
  const Direction set(direction);
  volatile T x = value;
  volatile float result = static_cast<float>(x);
  return result;
}

}  // namespace

float Rounded(int direction, Op op, float a, float b) { return Compute(direction, op, a, b); }
double Rounded(int direction, Op op, double a, double b) { return Compute(direction, op, a, b); }
float RoundedFma(int direction, float a, float b, float c) {
  return ComputeFma(direction, a, b, c);
}
double RoundedFma(int direction, double a, double b, double c) {
  return ComputeFma(direction, a, b, c);
}
float ToFloatRounded(int direction, double value) { return Convert(direction, value); }
float ToFloatRounded(int direction, int64_t value) { return Convert(direction, value); }
float ToFloatRounded(int direction, uint64_t value) { return Convert(direction, value); }

float FromHalf(Half value) {
  const uint32_t sign = uint32_t{value.bits} >> 15 << 31;
  const uint32_t exponent = value.bits >> 10 & 0x1F;
  const uint32_t mantissa = value.bits & 0x3FF;
  float magnitude;
  if (exponent == 0x1F) {
    magnitude = std::bit_cast<float>(0x7F800000u | mantissa << 13);
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa | 0x400), static_cast<int>(exponent) - 25);
  }
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

float FromBfloat16(Bfloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

Half ToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    return {0x7FFF};
  }
  const double magnitude = std::fabs(double{value});
  if (magnitude >= 65520) {  // half way from the largest to what would follow
    return {static_cast<uint16_t>(sign | 0x7C00)};
  }
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  const int unit = std::max(exponent - 11, -24);
  // Rounded to a multiple of 2^unit; carries into the exponent are right as they come.
  const double steps = std::nearbyint(std::ldexp(magnitude, -unit));
  const int base = unit + 24;  // 0: subnormal
  const uint32_t bits = base == 0
                            ? static_cast<uint32_t>(steps)
                            : (static_cast<uint32_t>(base) << 10) + static_cast<uint32_t>(steps);
  return {static_cast<uint16_t>(sign | bits)};
}

Bfloat16 ToBfloat16(float value) {
  if (std::isnan(value)) {
    return {0x7FFF};
  }
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

}  // namespace monsoon::emulator
