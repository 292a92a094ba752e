#include "ps_server/vector/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/check.h"

namespace monsoon {
namespace {

constexpr int kSumBits = 62;
constexpr int kMostValueBits = 50;

// 1.5 * 2^52: a double near it has a unit of 1 in the last place, so adding it
// rounds to an integer, to nearest and even, which the low bits then hold.
constexpr double kRounder = 0x1.8p52;

double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

// For |x| <= 2^51.
int64_t RoundToInteger(double x) {
  return std::bit_cast<int64_t>(x + kRounder) - std::bit_cast<int64_t>(kRounder);
}

float Larger(float a, float b) { return a > b ? a : b; }

// Largest |value| of a whole line, as a tree that needs no reordering to be
// done by SIMD instructions.
float LineMaximum(const float* values) {
  float eight[8], four[4];
  for (int i = 0; i < 8; ++i) {
    eight[i] = Larger(std::fabs(values[i]), std::fabs(values[i + 8]));
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
  for (size_t i = 0; i < kLineFloats; ++i) {
    sum[i] += RoundToInteger(static_cast<double>(values[i]) * quanta);
  }
  return true;
}

size_t Lines(size_t floats) { return (floats + kLineFloats - 1) / kLineFloats; }

}  // namespace

int ValueBits(uint32_t contributions) {
  CHECK_GE(contributions, 1u);
  return std::min(kMostValueBits, kSumBits - static_cast<int>(std::bit_width(contributions - 1)));
}

int16_t QuantumExponent(float maximum, int value_bits) {
  int exponent = 0;
  if (std::frexp(maximum, &exponent) == 0.5f) {
    --exponent;  // a power of two itself
  }
  return static_cast<int16_t>(exponent + kHeadroomBits - value_bits);
}

void RaiseMaxima(std::span<const float> values, std::span<float> maxima) {
  CHECK_EQ(maxima.size(), Lines(values.size()));
  const size_t whole = values.size() / kLineFloats;
  for (size_t line = 0; line < whole; ++line) {
    maxima[line] = Larger(LineMaximum(values.data() + line * kLineFloats), maxima[line]);
  }
  for (size_t i = whole * kLineFloats; i < values.size(); ++i) {
    maxima[whole] = Larger(std::fabs(values[i]), maxima[whole]);
  }
}

bool AddFixedPoint(std::span<const float> values, std::span<const int16_t> exponents,
                   int value_bits, std::span<float> maxima, std::span<int64_t> sum) {
  CHECK_EQ(maxima.size(), Lines(values.size()));
  CHECK_EQ(exponents.size(), maxima.size());
  CHECK_EQ(sum.size(), values.size());
  const double bound = PowerOfTwo(value_bits);
  const size_t whole = values.size() / kLineFloats;
  bool fits = true;
  for (size_t line = 0; line < whole; ++line) {
    const size_t at = line * kLineFloats;
    fits &= AddLine(values.data() + at, exponents[line], bound, &maxima[line], sum.data() + at);
  }
  if (const size_t at = whole * kLineFloats; at < values.size()) {
    float line[kLineFloats] = {};
    int64_t line_sum[kLineFloats] = {};
    std::ranges::copy(values.subspan(at), line);
    std::ranges::copy(sum.subspan(at), line_sum);
    fits &= AddLine(line, exponents[whole], bound, &maxima[whole], line_sum);
    std::copy_n(line_sum, values.size() - at, sum.begin() + static_cast<ptrdiff_t>(at));
  }
  return fits;
}

void RoundFixedPoint(std::span<const int64_t> sum, std::span<const int16_t> exponents,
                     double factor, double shift, std::span<const float> shift_vector,
                     std::span<float> out) {
  CHECK_EQ(sum.size(), out.size());
  CHECK_EQ(exponents.size(), Lines(sum.size()));
  CHECK(shift_vector.empty() || shift_vector.size() == out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const double total = static_cast<double>(sum[i]) * PowerOfTwo(exponents[i / kLineFloats]);
    const double scaled = factor * total;
    out[i] = static_cast<float>(
        shift_vector.empty() ? scaled : scaled + shift * static_cast<double>(shift_vector[i]));
  }
}

}  // namespace monsoon
