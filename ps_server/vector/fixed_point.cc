#include "ps_server/vector/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/check.h"
#include "common/simd/simd_level.h"
#include "ps_server/vector/fixed_point_loops.h"

namespace monsoon {
namespace {

constexpr int kSumBits = 62;
constexpr int kMostValueBits = 50;
static_assert(kLineFloats == 16, "what the loops have");

double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

const FixedPointLoops& Loops() {
  return ActiveLoops(simd_baseline::kFixedPointLoops, simd_avx2::kFixedPointLoops,
                     simd_avx512::kFixedPointLoops);
}

size_t Lines(size_t floats) { return (floats + kLineFloats - 1) / kLineFloats; }

// What an array has behind its whole lines, filled up with zeros.
template <typename T>
struct LastLine {
  explicit LastLine(std::span<const T> from)
      : begin(from.size() / kLineFloats * kLineFloats), size(from.size() - begin) {
    std::ranges::copy(from.subspan(begin), values);
  }
  const size_t begin;
  const size_t size;
  T values[kLineFloats] = {};
};

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
  const FixedPointLoops& loops = Loops();
  const size_t whole = values.size() / kLineFloats;
  loops.raise_maxima(whole, values.data(), maxima.data());
  if (const LastLine<float> line(values); line.size > 0) {
    loops.raise_maxima(1, line.values, &maxima[whole]);
  }
}

bool AddFixedPoint(std::span<const float> values, std::span<const int16_t> exponents,
                   int value_bits, std::span<float> maxima, std::span<int64_t> sum) {
  CHECK_EQ(maxima.size(), Lines(values.size()));
  CHECK_EQ(exponents.size(), maxima.size());
  CHECK_EQ(sum.size(), values.size());
  const FixedPointLoops& loops = Loops();
  const double bound = PowerOfTwo(value_bits);
  const size_t whole = values.size() / kLineFloats;
  bool fits = loops.add(whole, values.data(), exponents.data(), bound, maxima.data(), sum.data());
  if (const LastLine<float> line(values); line.size > 0) {
    LastLine<int64_t> line_sum(sum);
    fits &= loops.add(1, line.values, &exponents[whole], bound, &maxima[whole], line_sum.values);
    std::copy_n(line_sum.values, line.size, sum.data() + line.begin);
  }
  return fits;
}

void RoundFixedPoint(std::span<const int64_t> sum, std::span<const int16_t> exponents,
                     double factor, double shift, std::span<const float> shift_vector,
                     std::span<float> out) {
  CHECK_EQ(sum.size(), out.size());
  CHECK_EQ(exponents.size(), Lines(sum.size()));
  CHECK(shift_vector.empty() || shift_vector.size() == out.size());
  const FixedPointLoops& loops = Loops();
  const auto round = [&](size_t lines, const int64_t* from, const int16_t* units,
                         const float* shift_by, float* to) {
    if (shift_vector.empty()) {
      loops.round(lines, from, units, factor, to);
    } else {
      loops.round_shifted(lines, from, units, factor, shift, shift_by, to);
    }
  };
  const size_t whole = sum.size() / kLineFloats;
  round(whole, sum.data(), exponents.data(), shift_vector.data(), out.data());
  if (const LastLine<int64_t> line(sum); line.size > 0) {
    float shift_line[kLineFloats] = {}, rounded[kLineFloats];
    if (!shift_vector.empty()) {
      std::ranges::copy(shift_vector.subspan(line.begin), shift_line);
    }
    round(1, line.values, &exponents[whole], shift_line, rounded);
    std::copy_n(rounded, line.size, out.data() + line.begin);
  }
}

}  // namespace monsoon
