#include "ps_server/vector/fixed_point.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "common/simd/simd_level.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Vector = std::vector<float>;

// What rounding to the nearest quantum, ties to even, means.
int64_t ReferenceQuanta(float value, int exponent) {
  const long double quanta = std::ldexp(static_cast<long double>(value), -exponent);
  const long double below = std::floor(quanta);
  const long double rest = quanta - below;
  const int64_t integer = static_cast<int64_t>(below);
  if (rest == 0.5L) {
    return integer % 2 == 0 ? integer : integer + 1;
  }
  return rest < 0.5L ? integer : integer + 1;
}

// Runs at every SIMD level of this machine.
class FixedPointTest : public ::testing::TestWithParam<SimdLevel> {
  const ScopedSimdLevel level_{GetParam()};
};

TEST(FixedPointBitsTest, TheSumOfAllThatFitsCannotOverflow) {
  for (const uint32_t contributions : {1u, 2u, 3u, 4096u, 4097u, 16384u, 1u << 20}) {
    const int bits = ValueBits(contributions);
    EXPECT_LE(bits, 50);
    EXPECT_LE(static_cast<long double>(contributions) * std::ldexp(1.0L, bits), 0x1p62L);
    EXPECT_GE(bits - kHeadroomBits - 1, 24) << contributions;
  }
  EXPECT_EQ(ValueBits(4096), 50);
  EXPECT_EQ(ValueBits(16384), 48);
}

TEST(FixedPointBitsTest, TheQuantumLeavesHeadroomOverTheMaximum) {
  using Limits = std::numeric_limits<float>;
  for (const float maximum : {1.0f, 0.75f, 1.5f, 3e-20f, Limits::max(), Limits::denorm_min()}) {
    const int bits = ValueBits(1000);
    const double quantum = std::ldexp(1.0, QuantumExponent(maximum, bits));
    const double largest = quantum * std::ldexp(1.0, bits);
    EXPECT_GE(largest, 1024.0 * maximum);
    EXPECT_LT(largest, 2048.0 * maximum);
  }
}

TEST_P(FixedPointTest, AddsTheNearestQuantaOfEveryValue) {
  const PhiloxStream random(3, StreamKind::kTest);
  for (const size_t size : {1u, 15u, 16u, 17u, 64u, 100u}) {
    const size_t lines = (size + kLineFloats - 1) / kLineFloats;
    std::vector<int16_t> exponents(lines);
    for (size_t line = 0; line < lines; ++line) {
      exponents[line] = static_cast<int16_t>(-20 + 7 * static_cast<int>(line));
    }
    Vector values(size);
    std::vector<int64_t> expected(size, 5), sum(size, 5);
    Vector maxima(lines, 0.0f), expected_maxima(lines, 0.0f), raised(lines, 0.0f);
    for (size_t i = 0; i < size; ++i) {
      const int exponent = exponents[i / kLineFloats];
      // Every fourth lies between two quanta: a tie.
      values[i] = i % 4 == 0 ? std::ldexp(static_cast<float>(i) - 7.5f, exponent)
                             : std::ldexp(random.Normal(i), exponent + static_cast<int>(i % 30));
      expected[i] += ReferenceQuanta(values[i], exponent);
      float& maximum = expected_maxima[i / kLineFloats];
      maximum = std::max(maximum, std::abs(values[i]));
    }
    EXPECT_TRUE(AddFixedPoint(values, exponents, 50, maxima, sum));
    EXPECT_EQ(sum, expected) << size;
    EXPECT_EQ(maxima, expected_maxima) << size;
    RaiseMaxima(values, raised);
    EXPECT_EQ(raised, expected_maxima) << size;
  }
}

TEST_P(FixedPointTest, ALineThatDoesNotFitIsToldAndLeftOut) {
  const std::vector<int16_t> exponents = {-40, -40};
  Vector values(20, 1.0f), maxima(2, 0.0f);
  std::vector<int64_t> sum(20, 0);
  values[3] = -1024.0f;  // 2^10 = 2^(50 - 40): fits exactly
  EXPECT_TRUE(AddFixedPoint(values, exponents, 50, maxima, sum));
  EXPECT_EQ(sum[3], -(int64_t{1} << 50));
  values[3] = -std::nextafter(1024.0f, 2000.0f);
  EXPECT_FALSE(AddFixedPoint(values, exponents, 50, maxima, sum));
  EXPECT_EQ(sum[3], -(int64_t{1} << 50));
  EXPECT_EQ(sum[0], int64_t{1} << 40);
  EXPECT_EQ(sum[16], int64_t{2} << 40);  // the other line counts
  EXPECT_EQ(maxima[0], -values[3]);
  values[3] = std::numeric_limits<float>::max();
  EXPECT_FALSE(AddFixedPoint(values, exponents, 50, maxima, sum));
}

TEST_P(FixedPointTest, RoundsTheShiftedSumOnce) {
  const std::vector<int64_t> sum = {3, -5, int64_t{1} << 61};
  const std::vector<int16_t> exponents = {-4};
  const Vector shift = {1.0f, 2.0f, -3.0f};
  Vector out(3);
  RoundFixedPoint(sum, exponents, 1.0 / 3.0, 0.1, shift, out);
  for (size_t i = 0; i < 3; ++i) {
    const double scaled = (1.0 / 3.0) * (static_cast<double>(sum[i]) * 0x1p-4);
    EXPECT_EQ(out[i], static_cast<float>(scaled + 0.1 * static_cast<double>(shift[i])));
  }
  RoundFixedPoint(sum, exponents, 2.0, 0.0, {}, out);
  EXPECT_EQ(out[1], -0.625f);
}

TEST_P(FixedPointTest, AnyLengthAndAlignmentRoundsTheSumAndWritesNothingElse) {
  constexpr float kPoison = 12345.0f;
  const PhiloxStream random(4, StreamKind::kTest);
  for (const size_t size : {1u, 15u, 16u, 17u, 47u, 100u}) {
    std::vector<int16_t> exponents((size + kLineFloats - 1) / kLineFloats);
    for (size_t line = 0; line < exponents.size(); ++line) {
      exponents[line] = static_cast<int16_t>(-30 - 3 * static_cast<int>(line));
    }
    for (const size_t shift : {0u, 1u, 7u}) {
      std::vector<int64_t> sums(size + shift);
      Vector shifts(size + shift), guarded(size + 64, kPoison);
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] = static_cast<int64_t>(random.Normal(i) * 0x1p58f);
        shifts[i] = random.Normal(1000 + i) * 0x1p20f;
      }
      const std::span<const int64_t> sum = std::span(sums).subspan(shift);
      const std::span<const float> shift_vector = std::span(shifts).subspan(shift);
      const std::span<float> out = std::span(guarded).subspan(32 - shift, size);
      for (const bool shifted : {false, true}) {
        RoundFixedPoint(sum, exponents, 1.0 / 7.0, -0.2,
                        shifted ? shift_vector : std::span<const float>(), out);
        for (size_t i = 0; i < size; ++i) {
          const double total =
              static_cast<double>(sum[i]) * std::ldexp(1.0, exponents[i / kLineFloats]);
          const double scaled = (1.0 / 7.0) * total;
          const double want =
              shifted ? scaled - 0.2 * static_cast<double>(shift_vector[i]) : scaled;
          ASSERT_EQ(out[i], static_cast<float>(want)) << size << " at " << i;
        }
        EXPECT_EQ(std::ranges::count(guarded, kPoison), 64);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, FixedPointTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return SimdLevelName(info.param); });

}  // namespace
}  // namespace monsoon
