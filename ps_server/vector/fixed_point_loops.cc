#include "ps_server/vector/fixed_point_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

constexpr size_t kLine = 16;

// 1.5 * 2^52: a double near it has a unit of 1 in the last place, so adding it
// rounds to an integer, to nearest and even, which the low bits then hold.
constexpr double kRounder = 0x1.8p52;

double PowerOfTwo(int exponent) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(1023 + exponent) << 52);
}

// For |x| <= 2^51.
int64_t RoundToInteger(double x) {
  return __builtin_bit_cast(int64_t, x + kRounder) - __builtin_bit_cast(int64_t, kRounder);
}

float Larger(float a, float b) { return a > b ? a : b; }

// Largest |value| of a line, as a tree that needs no reordering to be done by
// SIMD instructions.
float LineMaximum(const float* values) {
  float eight[8], four[4];
  for (int i = 0; i < 8; ++i) {
    eight[i] = Larger(__builtin_fabsf(values[i]), __builtin_fabsf(values[i + 8]));
  }
  for (int i = 0; i < 4; ++i) {
    four[i] = Larger(eight[i], eight[i + 4]);
  }
  return Larger(Larger(four[0], four[1]), Larger(four[2], four[3]));
}

// False: the line does not fit and nothing was added.
bool AddLine(const float* __restrict values, int16_t exponent, double bound, float* maximum,
             int64_t* __restrict sum) {
  const float largest = LineMaximum(values);
  *maximum = Larger(largest, *maximum);
  const double quanta = PowerOfTwo(-exponent);
  if (static_cast<double>(largest) * quanta > bound) {
    return false;
  }
  for (size_t i = 0; i < kLine; ++i) {
    sum[i] += RoundToInteger(static_cast<double>(values[i]) * quanta);
  }
  return true;
}

void RaiseMaxima(size_t lines, const float* values, float* maxima) {
  for (size_t line = 0; line < lines; ++line) {
    maxima[line] = Larger(LineMaximum(values + line * kLine), maxima[line]);
  }
}

bool Add(size_t lines, const float* values, const int16_t* exponents, double bound, float* maxima,
         int64_t* sum) {
  bool fits = true;
  for (size_t line = 0; line < lines; ++line) {
    fits &=
        AddLine(values + line * kLine, exponents[line], bound, &maxima[line], sum + line * kLine);
  }
  return fits;
}

void Round(size_t lines, const int64_t* __restrict sum, const int16_t* __restrict exponents,
           double factor, float* __restrict out) {
  for (size_t line = 0; line < lines; ++line) {
    const double quantum = PowerOfTwo(exponents[line]);
    for (size_t i = line * kLine; i < (line + 1) * kLine; ++i) {
      out[i] = static_cast<float>(factor * (static_cast<double>(sum[i]) * quantum));
    }
  }
}

void RoundShifted(size_t lines, const int64_t* __restrict sum, const int16_t* __restrict exponents,
                  double factor, double shift, const float* __restrict shift_vector,
                  float* __restrict out) {
  for (size_t line = 0; line < lines; ++line) {
    const double quantum = PowerOfTwo(exponents[line]);
    for (size_t i = line * kLine; i < (line + 1) * kLine; ++i) {
      const double scaled = factor * (static_cast<double>(sum[i]) * quantum);
      out[i] = static_cast<float>(scaled + shift * static_cast<double>(shift_vector[i]));
    }
  }
}

}  // namespace

const FixedPointLoops kFixedPointLoops = {RaiseMaxima, Add, Round, RoundShifted};

}  // namespace monsoon::SIMD_NAMESPACE
