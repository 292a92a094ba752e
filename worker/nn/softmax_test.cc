#include "worker/nn/softmax.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(SoftmaxTest, EachRowByItself) {
  const std::vector<float> outputs = {0, 0, std::log(3.0f), 0};
  std::vector<float> probabilities(4, -1.0f);
  Softmax(outputs, 2, probabilities);
  EXPECT_FLOAT_EQ(probabilities[0], 0.5f);
  EXPECT_FLOAT_EQ(probabilities[1], 0.5f);
  EXPECT_FLOAT_EQ(probabilities[2], 0.75f);
  EXPECT_FLOAT_EQ(probabilities[3], 0.25f);
  const std::vector<double> precise(outputs.begin(), outputs.end());
  std::vector<float> same(4);
  Softmax(precise, 2, same);
  EXPECT_EQ(same, probabilities);
}

TEST(SoftmaxTest, LargeOutputsNeitherOverflowNorLoseSmallClasses) {
  const std::vector<float> outputs = {1e38f, 1e38f, -1e38f, 80, 0, 60};
  std::vector<float> probabilities(6);
  Softmax(outputs, 3, probabilities);
  EXPECT_EQ(probabilities[0], 0.5f);
  EXPECT_EQ(probabilities[2], 0.0f);
  EXPECT_NEAR(probabilities[4] / std::exp(-80.0), 1.0, 1e-6);
  EXPECT_NEAR(probabilities[5] / std::exp(-20.0), 1.0, 1e-6);
}

TEST(SoftmaxTest, WhatIsNotFiniteShowsInItsRowOnly) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> outputs = {1, std::nanf(""), 1, 2, infinity, 0, -infinity, 0};
  std::vector<float> probabilities(8);
  Softmax(outputs, 2, probabilities);
  for (const size_t row : {0u, 2u, 3u}) {
    EXPECT_TRUE(std::isnan(probabilities[2 * row]));
    EXPECT_TRUE(std::isnan(probabilities[2 * row + 1]));
  }
  EXPECT_TRUE(std::isfinite(probabilities[2]));
}

}  // namespace
}  // namespace monsoon
