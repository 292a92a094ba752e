#include "worker/group/gradient_sum.h"

#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(GradientSumTest, WeighsMeansByTheirSamples) {
  GradientSum sum(3);
  sum.Add(std::vector<float>{1, 2, -3}, 4);
  sum.Add(std::vector<float>{0.5, 0, 1}, 2);
  std::vector<float> out(3);
  sum.Round(out);
  EXPECT_EQ(out, (std::vector<float>{5, 8, -10}));
  sum.Clear();
  sum.Add(std::vector<float>{1, 1, 1}, 3);
  sum.Round(out);
  EXPECT_EQ(out, (std::vector<float>{3, 3, 3}));
}

TEST(GradientSumTest, KeepsWhatFloatsWouldLose) {
  GradientSum sum(1);
  sum.Add(std::vector<float>{1e8f}, 1);
  sum.Add(std::vector<float>{1.0f}, 1);
  sum.Add(std::vector<float>{-1e8f}, 1);
  std::vector<float> out(1);
  sum.Round(out);
  EXPECT_EQ(out[0], 1.0f);
}

}  // namespace
}  // namespace monsoon
