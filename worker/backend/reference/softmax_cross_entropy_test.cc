#include "worker/backend/reference/softmax_cross_entropy.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon::reference {
namespace {

TEST(SoftmaxCrossEntropyTest, EqualsHandComputedValues) {
  // softmax(0, ln 3) = (1/4, 3/4); softmax(ln 4, 0) = (4/5, 1/5).
  const std::vector<double> outputs = {0, std::log(3.0), std::log(4.0), 0};
  const std::vector<uint32_t> labels = {1, 1};
  std::vector<double> diff(4);
  const LossSums sums = SoftmaxCrossEntropy(outputs, labels, diff);
  EXPECT_NEAR(sums.loss, -std::log(0.75) - std::log(0.2), 1e-15);
  EXPECT_EQ(sums.correct, 1u);
  EXPECT_NEAR(diff[0], 0.25 / 2, 1e-15);
  EXPECT_NEAR(diff[1], -0.25 / 2, 1e-15);
  EXPECT_NEAR(diff[2], 0.8 / 2, 1e-15);
  EXPECT_NEAR(diff[3], -0.8 / 2, 1e-15);
}

TEST(SoftmaxCrossEntropyTest, LargeOutputsDoNotOverflow) {
  const std::vector<double> outputs = {1e4, -1e4};
  const std::vector<uint32_t> labels = {1};
  EXPECT_DOUBLE_EQ(SoftmaxCrossEntropy(outputs, labels, {}).loss, 2e4);
}

// The label leads by 60: the loss is 9e-27, and 1 + it is 1 in double too.
TEST(SoftmaxCrossEntropyTest, SmallLossesKeepTheirDigits) {
  const std::vector<double> outputs = {60, 0, -1};
  const std::vector<uint32_t> labels = {0};
  std::vector<double> diff(3);
  const double small = std::exp(-60.0) + std::exp(-61.0);
  EXPECT_NEAR(SoftmaxCrossEntropy(outputs, labels, diff).loss / small, 1.0, 1e-14);
  EXPECT_NEAR(diff[0] / -small, 1.0, 1e-14);
  EXPECT_NEAR(diff[1] / std::exp(-60.0), 1.0, 1e-14);
}

// Central differences of the loss, over leads where its values are far apart.
TEST(SoftmaxCrossEntropyTest, TheGradientIsTheLosssSlope) {
  for (const double lead : {-8.0, 0.0, 3.0, 12.0}) {
    std::vector<double> outputs = {0.3 + lead, -0.4, 1.1, 0.3, 0.2, -2.0 - lead};
    const std::vector<uint32_t> labels = {0, 2};
    std::vector<double> diff(outputs.size());
    SoftmaxCrossEntropy(outputs, labels, diff);
    for (size_t i = 0; i < outputs.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double at = outputs[i];
      outputs[i] = at + kStep;
      const double above = SoftmaxCrossEntropy(outputs, labels, {}).loss;
      outputs[i] = at - kStep;
      const double below = SoftmaxCrossEntropy(outputs, labels, {}).loss;
      outputs[i] = at;
      EXPECT_NEAR(diff[i], (above - below) / (2 * kStep) / 2, 1e-9) << lead << ", output " << i;
    }
  }
}

}  // namespace
}  // namespace monsoon::reference
