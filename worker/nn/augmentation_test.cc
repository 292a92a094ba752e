#include "worker/nn/augmentation.h"

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

LayerPlan MakePlan(uint64_t extent, uint64_t crop, uint64_t shift, bool flip) {
  LayerPlan plan;
  plan.kind = LayerKind::kAugment;
  plan.input = Extent{.channels = 3, .height = extent, .width = extent + 2, .is_image = true};
  plan.output = plan.input;
  if (crop > 0) {
    plan.output.height = plan.output.width = crop;
  }
  plan.crop = crop;
  plan.shift = shift;
  plan.flip = flip;
  return plan;
}

auto Tuple(const Augmentation& augmentation) {
  return std::tuple(augmentation.row, augmentation.column, augmentation.flip);
}

TEST(AugmentationTest, EvaluationsAndBatchJobsCropInTheMiddle) {
  const LayerPlan plan = MakePlan(9, 4, 2, true);
  EXPECT_EQ(Tuple(DrawAugmentation(plan, nullptr, 3)), std::tuple(2, 3, false));
  const std::vector<uint32_t> samples = {7};
  for (uint64_t step = 0; step < 20; ++step) {
    const StepKey key{1, 2, step, samples};
    EXPECT_EQ(Tuple(DrawAugmentation(plan, &key, 0)), std::tuple(2, 3, false));
  }
}

// Each with its share: 3 shifts by 4 places of the crop.
TEST(AugmentationTest, AllPlacesAreDrawnAsOftenAsTheyShould) {
  const LayerPlan plan = MakePlan(7, 4, 1, true);
  std::map<int64_t, int> rows, columns;
  int flips = 0;
  constexpr int kDraws = 12000;
  for (int i = 0; i < kDraws; ++i) {
    const StepKey key{5, 0, static_cast<uint64_t>(i / 100), {}};
    const Augmentation drawn = DrawAugmentation(plan, &key, static_cast<size_t>(i % 100));
    ++rows[drawn.row];
    ++columns[drawn.column];
    flips += drawn.flip;
  }
  // Crop 0..3 and shift -1..1: the sums -1 to 4 come 1, 2, 3, 3, 2 and 1 times in 12.
  const std::map<int64_t, int> shares = {{-1, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 2}, {4, 1}};
  ASSERT_EQ(rows.size(), shares.size());
  for (const auto& [row, share] : shares) {
    EXPECT_NEAR(rows[row], share * kDraws / 12, 5 * 50) << row;
  }
  // Columns have 6 places, 0..5.
  EXPECT_EQ(columns.begin()->first, -1);
  EXPECT_EQ(columns.rbegin()->first, 6);
  EXPECT_NEAR(flips, kDraws / 2, 5 * 55);
}

TEST(AugmentationTest, WhatIsNotAskedForDoesNotHappen) {
  const LayerPlan plan = MakePlan(6, 0, 0, false);
  for (size_t i = 0; i < 50; ++i) {
    const StepKey key{1, 0, 3, {}};
    EXPECT_EQ(Tuple(DrawAugmentation(plan, &key, i)), std::tuple(0, 0, false));
  }
}

TEST(AugmentationTest, SeedWorkerStepLayerAndSampleEachDrawAnew) {
  LayerPlan plan = MakePlan(200, 100, 50, true);
  const auto draw = [&](uint64_t seed, uint32_t worker, uint64_t step, uint32_t layer,
                        size_t sample) {
    plan.index = layer;
    const StepKey key{seed, worker, step, {}};
    return Tuple(DrawAugmentation(plan, &key, sample));
  };
  const auto first = draw(1, 0, 0, 0, 0);
  EXPECT_EQ(draw(1, 0, 0, 0, 0), first);
  const std::set<std::tuple<int64_t, int64_t, bool>> all = {first,
                                                            draw(2, 0, 0, 0, 0),
                                                            draw(1, 1, 0, 0, 0),
                                                            draw(1, 0, 1, 0, 0),
                                                            draw(1, 0, 0, 1, 0),
                                                            draw(1, 0, 0, 0, 1)};
  EXPECT_EQ(all.size(), 6u);
}

}  // namespace
}  // namespace monsoon
