#include "coordinator/lbfgs/noise.h"

#include <cmath>
#include <optional>
#include <vector>

#include "common/base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::DoubleNear;

// A parabola around 3 at 7 points, with uniform noise of this standard deviation.
std::vector<double> Values(uint64_t seed, double deviation) {
  const PhiloxStream stream(seed, StreamKind::kSynthetic, 0);
  std::vector<double> values;
  for (int i = 0; i < kNoisePoints; ++i) {
    const double x = 0.01 * (i - 3);
    const double u = stream.Uniform(static_cast<uint64_t>(i)) - 0.5;
    values.push_back(3.0 + 1e-3 * x + 1e-3 * x * x + std::sqrt(12.0) * deviation * u);
  }
  return values;
}

TEST(NoiseTest, FindsTheDeviationOfWhatIsNotSmooth) {
  for (const double deviation : {1e-10, 1e-8}) {
    int near = 0;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      const std::optional<double> noise = EstimateNoise(Values(seed, deviation));
      near += noise.has_value() && *noise >= deviation / 8 && *noise <= deviation * 8 ? 1 : 0;
    }
    EXPECT_GE(near, 35) << deviation;
  }
}

TEST(NoiseTest, FindsNoneWhereTheFunctionIsSmoothOrDoesNotChange) {
  std::vector<double> smooth;
  for (int i = 0; i < kNoisePoints; ++i) {
    smooth.push_back(std::exp(0.5 * i));
  }
  EXPECT_EQ(EstimateNoise(smooth), std::nullopt);
  EXPECT_EQ(EstimateNoise(std::vector<double>(kNoisePoints, 2.5)), std::nullopt);
}

// The second differences of 0, 1, 0, 1, ... have the mean square 4, and
// (1!)^2 / 2! = 1/2 of the first ones' 1: 0.707, 0.816, 0.894, ...
TEST(NoiseTest, HasTheWeightsOfThePaper) {
  const auto noise = EstimateNoise(std::vector<double>{0, 1, 0, 1, 0, 1, 0});
  ASSERT_TRUE(noise.has_value());
  EXPECT_THAT(*noise, DoubleNear(std::sqrt(0.5), 1e-12));
}

}  // namespace
}  // namespace monsoon
