#include "worker/nn/dropout_mask.h"

#include <algorithm>
#include <span>
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

TEST(DropoutMaskTest, ASampleKeepsItsMaskInAnyBatch) {
  constexpr size_t kValues = 37;
  const std::vector<uint32_t> samples = {5, 900'000, 0, 6};
  const auto draw = [&](std::span<const uint32_t> some, StepKey key, uint32_t layer) {
    key.samples = some;
    return Mask(key, layer, 0.5, some.size() * kValues);
  };
  const std::vector<float> all = draw(samples, {1, 2, 3}, 4);
  for (size_t n = 0; n < samples.size(); ++n) {
    const auto own = all.begin() + n * kValues;
    // Alone, by another worker, in another step.
    const std::vector<float> alone = draw(std::span(samples).subspan(n, 1), {1, 7, 8}, 4);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), own)) << n;
    // No two samples, seeds or layers share one.
    EXPECT_NE(alone, draw(std::span(samples).subspan((n + 1) % 4, 1), {1, 2, 3}, 4));
    EXPECT_NE(alone, draw(std::span(samples).subspan(n, 1), {9, 2, 3}, 4));
    EXPECT_NE(alone, draw(std::span(samples).subspan(n, 1), {1, 2, 3}, 5));
  }
  EXPECT_NE(all, Mask({1, 2, 3}, 4, 0.5, all.size()));
}

TEST(DropoutMaskTest, RateZeroKeepsAll) {
  const std::vector<float> mask = Mask({1, 2, 3}, 0, 0.0, 1000);
  EXPECT_EQ(std::count(mask.begin(), mask.end(), 1.0f), 1000);
}

}  // namespace
}  // namespace monsoon
