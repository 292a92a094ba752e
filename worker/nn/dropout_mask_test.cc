#include "worker/nn/dropout_mask.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

std::vector<float> Mask(const StepKey& key, uint32_t layer, double rate, size_t size) {
  std::vector<float> mask(size, -1.0f);
  FillDropoutMask(key, layer, rate, mask);
  return mask;
}

TEST(DropoutMaskTest, DropsTheRateAndScalesTheRest) {
  const std::vector<float> mask = Mask({1, 2, 3}, 4, 0.25, 100'001);
  const auto dropped = std::count(mask.begin(), mask.end(), 0.0f);
  const auto kept = std::count(mask.begin(), mask.end(), static_cast<float>(1 / 0.75));
  EXPECT_EQ(dropped + kept, 100'001);
  // Six standard deviations of a binomial.
  EXPECT_NEAR(static_cast<double>(dropped), 25'000, 6 * 137);
}

TEST(DropoutMaskTest, IsAFunctionOfItsKeyAlone) {
  const std::vector<float> mask = Mask({1, 2, 3}, 4, 0.5, 64);
  EXPECT_EQ(mask, Mask({1, 2, 3}, 4, 0.5, 64));
  // A shorter batch sees the front of the same mask.
  const std::vector<float> front = Mask({1, 2, 3}, 4, 0.5, 30);
  EXPECT_TRUE(std::equal(front.begin(), front.end(), mask.begin()));
  EXPECT_NE(mask, Mask({9, 2, 3}, 4, 0.5, 64));
  EXPECT_NE(mask, Mask({1, 9, 3}, 4, 0.5, 64));
  EXPECT_NE(mask, Mask({1, 2, 9}, 4, 0.5, 64));
  EXPECT_NE(mask, Mask({1, 2, 3}, 9, 0.5, 64));
}

TEST(DropoutMaskTest, RateZeroKeepsAll) {
  const std::vector<float> mask = Mask({1, 2, 3}, 0, 0.0, 1000);
  EXPECT_EQ(std::count(mask.begin(), mask.end(), 1.0f), 1000);
}

}  // namespace
}  // namespace monsoon
