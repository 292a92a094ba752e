#include "worker/downpour/accumulator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Each;

SharedMarks MarksAt(uint64_t version) {
  auto marks = std::make_shared<FetchMarks>();
  marks->shard = {{StripeMark{1, version, 0}}};
  return marks;
}

void AddStep(Accumulator* accumulator, float g, const SharedMarks& marks) {
  for (float& value : accumulator->step_buffer()) value = g;
  accumulator->Add(marks);
}

TEST(AccumulatorTest, SumsStepsAndKeepsTheOldestBase) {
  Accumulator accumulator(17, 3);
  AddStep(&accumulator, 1, MarksAt(5));
  AddStep(&accumulator, 2, MarksAt(6));
  EXPECT_FALSE(accumulator.full());
  AddStep(&accumulator, 4, MarksAt(7));
  EXPECT_TRUE(accumulator.full());
  const Accumulation sealed = *accumulator.Seal();
  EXPECT_THAT(sealed.gradient, Each(7.0f));
  EXPECT_EQ(sealed.base->shard[0][0].version, 5u);
  EXPECT_EQ(sealed.steps, 3u);
  EXPECT_TRUE(accumulator.empty());
}

TEST(AccumulatorTest, WhatComesEncodedLeavesAsItIs) {
  Accumulator accumulator(2, 1, nullptr, Accumulator::Kind::kEncoded);
  const std::vector<float> halves = {1.5f, -2.5f};  // four values
  std::ranges::copy(halves, accumulator.step_buffer().begin());
  accumulator.Add(MarksAt(3));
  ASSERT_OK_AND_ASSIGN(const Accumulation push, accumulator.Seal());
  EXPECT_TRUE(push.gradient.empty());
  EXPECT_EQ(std::memcmp(push.encoded.data(), halves.data(), 8), 0);
  EXPECT_EQ(push.encoded.size(), 8u);
  EXPECT_EQ(push.steps, 1u);
}

TEST(AccumulatorTest, ASealedPushIsUntouchedByTheNextOne) {
  Accumulator accumulator(16, 1);
  AddStep(&accumulator, 1, MarksAt(1));
  const Accumulation first = *accumulator.Seal();
  AddStep(&accumulator, 2, MarksAt(2));
  EXPECT_THAT(first.gradient, Each(1.0f));
  EXPECT_THAT(accumulator.Seal()->gradient, Each(2.0f));
}

TEST(AccumulatorTest, ADroppedStepLeavesNothing) {
  Accumulator accumulator(16, 2);
  AddStep(&accumulator, 1, MarksAt(1));
  for (float& value : accumulator.step_buffer()) value = 1e30f;  // written, not added
  AddStep(&accumulator, 2, MarksAt(2));
  EXPECT_THAT(accumulator.Seal()->gradient, Each(3.0f));
}

TEST(AccumulatorTest, OnlyWhatNoStepHasAGradientOfIsAbsent) {
  Accumulator accumulator(16, 2);
  const std::vector<TensorSlice> both = {{1, {0, 4}}, {3, {8, 9}}}, one = {{3, {8, 9}}};
  const auto absent = [&](std::span<const TensorSlice> first, std::span<const TensorSlice> second) {
    accumulator.step_buffer();
    accumulator.Add(MarksAt(1), first);
    accumulator.step_buffer();
    accumulator.Add(MarksAt(1), second);
    return accumulator.Seal()->absent;
  };
  EXPECT_EQ(absent(both, both).size(), 2u);
  const std::vector<TensorSlice> common = absent(both, one);
  ASSERT_EQ(common.size(), 1u);
  EXPECT_EQ(common[0].number, 3u);
  EXPECT_TRUE(absent(one, {}).empty());
  EXPECT_TRUE(absent({}, both).empty());
}

TEST(AccumulatorTest, BlocksTravelWithTheirLastStep) {
  Accumulator accumulator(16, 2);
  BlockId block;
  block.set_block(4);
  AddStep(&accumulator, 1, MarksAt(1));
  accumulator.FinishPart(block);
  AddStep(&accumulator, 1, MarksAt(1));
  EXPECT_EQ(std::get<BlockId>(accumulator.Seal()->parts.at(0)).block(), 4u);
  AddStep(&accumulator, 1, MarksAt(1));
  EXPECT_TRUE(accumulator.Seal()->parts.empty());
}

TEST(AccumulatorTest, ADifferenceIsWhatTheStepsMovedTheOtherWayRound) {
  Accumulator accumulator(16, 3, nullptr, Accumulator::Kind::kDifferences);
  AddStep(&accumulator, 100, MarksAt(5));
  AddStep(&accumulator, 200, MarksAt(6));
  EXPECT_FALSE(accumulator.full());
  accumulator.SetSteps(2);
  EXPECT_TRUE(accumulator.full());
  const Accumulation sealed = *accumulator.Seal(std::vector<float>(16, -0.5f));
  EXPECT_THAT(sealed.gradient, Each(0.5f));
  EXPECT_EQ(sealed.base->shard[0][0].version, 5u);
  EXPECT_EQ(sealed.steps, 2u);
  AddStep(&accumulator, 1, MarksAt(7));
  EXPECT_THAT(sealed.gradient, Each(0.5f));
}

}  // namespace
}  // namespace monsoon
