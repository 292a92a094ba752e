#include "common/optimizer/row_adagrad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace monsoon {
namespace {

// By hand: |g|^2 / n = (9 + 16) / 2 = 12.5 and s = 12.25 + 12.5 = 24.75; then 24.75 + 0.25 = 25.
TEST(RowAdagradTest, TwoStepsByHand) {
  std::vector<float> row{1, 2};
  float sum = 12.25f;
  const std::vector<float> first{3, 4}, second{0.5f, 0.5f};
  StepRow({.learning_rate = 0.5f, .epsilon = 0}, first.data(), 2, row.data(), &sum);
  EXPECT_EQ(sum, 24.75f);
  EXPECT_NEAR(row[0], 1 - 1.5 / std::sqrt(24.75), 1e-6);
  EXPECT_NEAR(row[1], 2 - 2.0 / std::sqrt(24.75), 1e-6);
  const float before = row[0];
  StepRow({.learning_rate = 0.5f, .epsilon = 0}, second.data(), 2, row.data(), &sum);
  EXPECT_EQ(sum, 25.0f);
  EXPECT_NEAR(row[0], before - 0.25 / 5, 1e-6);
}

TEST(RowAdagradTest, EqualsDoubleArithmeticAtOddLengths) {
  for (size_t columns = 1; columns < 40; ++columns) {
    std::vector<float> row(columns), gradient(columns);
    std::vector<double> oracle(columns);
    float sum = 0.5f;
    double oracle_sum = 0.5;
    for (int step = 0; step < 20; ++step) {
      double squares = 0;
      for (size_t i = 0; i < columns; ++i) {
        gradient[i] = std::sin(static_cast<float>(i * 7 + step * 3));
        squares += static_cast<double>(gradient[i]) * gradient[i];
      }
      oracle_sum += squares / static_cast<double>(columns);
      for (size_t i = 0; i < columns; ++i) {
        oracle[i] -= 0.1 * gradient[i] / (std::sqrt(oracle_sum) + 1e-3);
      }
      StepRow({.learning_rate = 0.1f, .epsilon = 1e-3f}, gradient.data(), columns, row.data(),
              &sum);
    }
    EXPECT_NEAR(sum, oracle_sum, 1e-5 * oracle_sum);
    for (size_t i = 0; i < columns; ++i) {
      EXPECT_NEAR(row[i], oracle[i], 2e-6) << columns << " columns, value " << i;
    }
  }
}

TEST(RowAdagradTest, ZerosAndOverflowLeaveTheRow) {
  std::vector<float> row{1, 2}, zero{0, 0}, huge{3e38f, 3e38f};
  float sum = 0;
  StepRow({.learning_rate = 1, .epsilon = 0}, zero.data(), 2, row.data(), &sum);
  EXPECT_EQ(sum, 0);
  EXPECT_EQ(row, (std::vector<float>{1, 2}));
  StepRow({.learning_rate = 1, .epsilon = 0}, huge.data(), 2, row.data(), &sum);
  EXPECT_EQ(sum, std::numeric_limits<float>::max());
  EXPECT_EQ(row, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace monsoon
