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

}  // namespace
}  // namespace monsoon::reference
