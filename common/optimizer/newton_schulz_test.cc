#include "common/optimizer/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/simd/simd_level.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Each;

std::vector<float> Orthogonal(size_t rows, size_t columns, uint32_t steps, std::vector<float> x) {
  std::vector<float> scratch(OrthogonalizeScratch(rows, columns),
                             std::numeric_limits<float>::quiet_NaN());
  Orthogonalize(rows, columns, steps, x, scratch);
  return x;
}

std::vector<float> Random(size_t size) {
  const PhiloxStream stream(3, StreamKind::kTest);
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = stream.Normal(i);
  }
  return values;
}

// The formula as it stands, in double, of r x c with r <= c.
std::vector<double> Naive(size_t r, size_t c, uint32_t steps, const std::vector<float>& x) {
  double norm = 0;
  for (const float value : x) {
    norm += static_cast<double>(value) * value;
  }
  std::vector<double> now(x.begin(), x.end());
  std::ranges::for_each(now, [&](double& value) { value /= std::max(std::sqrt(norm), 1e-7); });
  const auto product = [](size_t n, size_t m, size_t k, const auto& a, const auto& b) {
    std::vector<double> made(n * m, 0.0);
    for (size_t i = 0; i < n * m * k; ++i) {
      made[i / k] += a(i / k / m, i % k) * b(i % k, i / k % m);
    }
    return made;
  };
  for (uint32_t step = 0; step < steps; ++step) {
    const auto at = [&](size_t i, size_t j) { return now[i * c + j]; };
    const std::vector<double> s =
        product(r, r, c, at, [&](size_t k, size_t j) { return now[j * c + k]; });
    const auto of_s = [&](size_t i, size_t j) { return s[i * r + j]; };
    std::vector<double> factor = product(r, r, r, of_s, of_s);
    for (size_t i = 0; i < r * r; ++i) {
      factor[i] = -4.775 * s[i] + 2.0315 * factor[i];
    }
    const std::vector<double> more = product(
        r, c, r, [&](size_t i, size_t j) { return factor[i * r + j]; }, at);
    for (size_t i = 0; i < r * c; ++i) {
      now[i] = 3.4445 * now[i] + more[i];
    }
  }
  return now;
}

// |diag(3, 4)| = 5, and v becomes 3.4445 v - 4.775 v^3 + 2.0315 v^5: of 0.6 that is
// 2.0667 - 1.0314 + 0.15796944, of 0.8 it is 2.7556 - 2.4448 + 0.66568192.
TEST(NewtonSchulzTest, AStepByHand) {
  const std::vector<float> x = Orthogonal(2, 2, 1, {0, 3, -4, 0});
  EXPECT_EQ(x[0], 0.0f);
  EXPECT_NEAR(x[1], 1.19326944, 1e-6);
  EXPECT_NEAR(x[2], -0.97648192, 1e-6);
  EXPECT_EQ(x[3], 0.0f);
  // A row is divided by its norm: then 3.4445 - 4.775 + 2.0315 = 0.701 of it is left.
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{1, 2}, {2, 1}}) {
    const std::vector<float> row = Orthogonal(rows, columns, 1, {30, 40});
    EXPECT_NEAR(row[0], 0.6 * 0.701, 1e-6);
    EXPECT_NEAR(row[1], 0.8 * 0.701, 1e-6);
  }
}

TEST(NewtonSchulzTest, IsThatOfTheFormulaInDouble) {
  for (const auto& [r, c] : {std::pair<size_t, size_t>{1, 1}, {1, 7}, {5, 5}, {6, 33}, {25, 41}}) {
    const std::vector<float> wide = Random(r * c);
    std::vector<float> tall(wide.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      tall[i % c * r + i / c] = wide[i];
    }
    for (const uint32_t steps : {1u, 5u, 8u}) {
      const std::vector<double> expected = Naive(r, c, steps, wide);
      const std::vector<float> x = Orthogonal(r, c, steps, wide);
      const std::vector<float> transposed = Orthogonal(c, r, steps, tall);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(x[i], expected[i], 2e-5) << r << " x " << c << ", " << steps;
        EXPECT_NEAR(transposed[i % c * r + i / c], expected[i], 2e-5) << c << " x " << r;
      }
    }
  }
}

// x x' is near the unit matrix: the singular values are between 0.68 and 1.13.
TEST(NewtonSchulzTest, RowsBecomeOrthogonal) {
  constexpr size_t kRows = 20, kColumns = 200;
  const std::vector<float> x = Orthogonal(kRows, kColumns, 5, Random(kRows * kColumns));
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kRows; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kColumns; ++k) {
        sum += static_cast<double>(x[i * kColumns + k]) * x[j * kColumns + k];
      }
      EXPECT_NEAR(sum, i == j ? 0.85 : 0.0, 0.42) << i << ", " << j;
    }
  }
}

TEST(NewtonSchulzTest, HasTheSameBitsAtEachSimdLevel) {
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{37, 45}, {45, 37}, {200, 13}}) {
    const std::vector<float> x = Random(rows * columns);
    const std::vector<float> expected = Orthogonal(rows, columns, 5, x);
    for (const SimdLevel level : SupportedSimdLevels()) {
      const ScopedSimdLevel scoped(level);
      EXPECT_EQ(Orthogonal(rows, columns, 5, x), expected) << SimdLevelName(level);
    }
  }
}

TEST(NewtonSchulzTest, LengthsThatFloatsHaveAreNone) {
  EXPECT_THAT(Orthogonal(2, 3, 5, std::vector<float>(6, 0.0f)), Each(0.0f));
  const std::vector<float> usual = Orthogonal(2, 2, 5, {1, 2, 3, 5});
  for (const float scale : {1e37f, 1e-5f}) {
    const std::vector<float> x = Orthogonal(2, 2, 5, {scale, 2 * scale, 3 * scale, 5 * scale});
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(x[i], usual[i], 1e-5) << scale;
    }
  }
  // Below the least norm it stays shorter: this has a thousandth of it.
  const std::vector<float> least = Orthogonal(1, 1, 1, {1e-10f});
  EXPECT_NEAR(least[0], 3.4445e-3, 1e-6);
  const std::vector<float> bad =
      Orthogonal(2, 2, 1, {1, 2, std::numeric_limits<float>::infinity(), 4});
  EXPECT_TRUE(std::ranges::any_of(bad, [](float value) { return std::isnan(value); }));
}

}  // namespace
}  // namespace monsoon
