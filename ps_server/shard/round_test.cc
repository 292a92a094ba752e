#include "ps_server/shard/round.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Seconds(100);

// A round over `floats` values whose parameters are all `parameter`.
struct TestRound {
  explicit TestRound(size_t floats, float parameter = 0.0f)
      : sum(floats, 0), parameters(floats, parameter), round(sum) {}

  absl::Status Add(uint32_t worker, float weight, std::span<const float> difference,
                   const RoundRule& rule = {}, uint64_t incarnation = 1) {
    return round.Add({.session = {worker, incarnation},
                      .sequence = 1,
                      .weight = weight,
                      .difference = difference},
                     parameters, kNow, rule);
  }
  std::vector<float> Close() {
    std::vector<float> mean(sum.size());
    round.Close(parameters, mean);
    return mean;
  }

  std::vector<int64_t> sum;
  std::vector<float> parameters;
  Round round;
};

TEST(RoundTest, TheMeanIsWeighted) {
  TestRound test(16);
  const std::vector<float> one(16, 1.0f), five(16, 5.0f);
  ASSERT_OK(test.Add(0, 3.0f, one));
  ASSERT_OK(test.Add(1, 1.0f, five));
  EXPECT_THAT(test.Close(), Each(2.0f));  // (3 * 1 + 1 * 5) / 4
  EXPECT_TRUE(test.round.empty());
  ASSERT_OK(test.Add(0, 0.5f, five));
  EXPECT_THAT(test.Close(), Each(5.0f));  // alone, whatever its weight
}

// Equation 3 of Decoupled DiLoCo, from when each difference has come.
TEST(RoundTest, TheGraceEndsBeforeAMemberWouldWait) {
  const RoundRule rule{.quorum = 2, .adaptive_share = 0.5f, .grace = absl::Seconds(10)};
  const std::vector<float> one(16, 1.0f);
  const auto add = [&](TestRound* test, uint32_t worker, absl::Duration now,
                       absl::Duration patience) {
    ASSERT_OK(test->round.Add(
        {.session = {worker, 1}, .sequence = 1, .patience = patience, .difference = one},
        test->parameters, now, rule));
  };
  TestRound test(16);
  add(&test, 0, kNow, absl::Seconds(8));                              // until kNow + 4 s
  EXPECT_FALSE(test.round.HasQuorum(rule, kNow + absl::Seconds(5)));  // it is alone
  add(&test, 1, kNow + absl::Seconds(1), absl::Seconds(20));
  EXPECT_FALSE(test.round.HasQuorum(rule, kNow + absl::Milliseconds(3999)));
  EXPECT_TRUE(test.round.HasQuorum(rule, kNow + absl::Seconds(4)));
  test.Close();
  // The next round knows nothing of that; one that is asked for nothing has the whole grace.
  add(&test, 0, kNow, absl::ZeroDuration());
  add(&test, 1, kNow, absl::Seconds(1000));
  EXPECT_FALSE(test.round.HasQuorum(rule, kNow + absl::Milliseconds(9999)));
  EXPECT_TRUE(test.round.HasQuorum(rule, kNow + absl::Seconds(10)));
  // Without a share nobody's patience counts.
  TestRound fixed(16);
  RoundRule plain = rule;
  plain.adaptive_share = 0;
  ASSERT_OK(fixed.round.Add({.session = {0, 1}, .patience = absl::Seconds(1), .difference = one},
                            fixed.parameters, kNow, plain));
  ASSERT_OK(fixed.Add(1, 1.0f, one, plain));
  EXPECT_FALSE(fixed.round.HasQuorum(plain, kNow + absl::Seconds(9)));
}

TEST(RoundTest, DampingIsOfTheDifferenceAlone) {
  TestRound test(16);
  const std::vector<float> four(16, 4.0f);
  ASSERT_OK(test.round.Add({.session = {0, 1}, .damping = 0.5f, .difference = four},
                           test.parameters, kNow, {}));
  ASSERT_OK(test.Add(1, 1.0f, four));
  EXPECT_THAT(test.Close(), Each(3.0f));  // (2 + 4) / 2
}

TEST(RoundTest, ThePartsOfDifferencesAreWeightedAlike) {
  TestRound test(16);
  std::vector<float> one(16, 1.0f), mean(16);
  ASSERT_OK(test.Add(0, 3.0f, one));
  ASSERT_OK(test.round.Add({.session = {1, 1}, .weight = 1, .part = 0.5f, .difference = one},
                           test.parameters, kNow, {}));
  TestRound other(16);
  StripeRecord record;
  test.round.AddMembersTo(&record);
  other.round.Restore(record);
  EXPECT_EQ(test.round.Close(test.parameters, mean), 0.875f);
  EXPECT_EQ(other.round.Close(test.parameters, mean), 0.875f);
  // What an earlier version wrote has whole ones only.
  for (RoundMember& member : *record.mutable_member()) member.clear_whole();
  other.round.Restore(record);
  EXPECT_EQ(other.round.Close(test.parameters, mean), 1.0f);
}

// The scalar oracle in double, and the same bits in any order.
TEST(RoundTest, EveryOrderGivesTheSameBits) {
  constexpr size_t kFloats = 16 * 7 + 5;
  constexpr uint32_t kWorkers = 9;
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 0.01f);
  std::vector<std::vector<float>> differences(kWorkers, std::vector<float>(kFloats));
  std::vector<float> weights;
  for (std::vector<float>& difference : differences) {
    std::ranges::generate(difference, [&] { return normal(random); });
    weights.push_back(0.1f + std::abs(normal(random)));
  }
  std::vector<uint32_t> order(kWorkers);
  std::ranges::generate(order, [next = 0u]() mutable { return next++; });
  std::vector<float> first;
  for (int shuffle = 0; shuffle < 20; ++shuffle) {
    TestRound test(kFloats, 0.3f);
    for (const uint32_t worker : order) {
      ASSERT_OK(test.Add(worker, weights[worker], differences[worker]));
    }
    const std::vector<float> mean = test.Close();
    if (first.empty()) {
      first = mean;
      for (size_t i = 0; i < kFloats; ++i) {
        double sum = 0, weight = 0;
        for (uint32_t worker = 0; worker < kWorkers; ++worker) {
          sum += static_cast<double>(weights[worker]) * differences[worker][i];
          weight += weights[worker];
        }
        ASSERT_NEAR(mean[i], sum / weight, 1e-9) << i;
      }
    }
    ASSERT_EQ(mean, first) << shuffle;
    std::ranges::shuffle(order, random);
  }
}

TEST(RoundTest, WhatItCannotSumIsRefusedWhole) {
  TestRound test(32, 2.0f);
  std::vector<float> difference(32, 1.0f);
  difference[20] = 2049.0f;  // 2^(1 + 10) is the largest
  const absl::Status refused = test.Add(0, 1.0f, difference);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("value 20 of the difference is 2049"));
  EXPECT_TRUE(test.round.empty());
  EXPECT_THAT(test.sum, Each(0));
  difference[20] = 2048.0f;
  EXPECT_OK(test.Add(0, 1.0f, difference));
  // A weight can make infinity of what is finite.
  difference[20] = 3e38f;
  EXPECT_TRUE(absl::IsInvalidArgument(test.Add(0, 10.0f, difference)));
  difference[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(absl::IsInvalidArgument(test.Add(0, 1.0f, difference)));
}

TEST(RoundTest, TheLargestSumDoesNotOverflow) {
  TestRound test(16);
  const std::vector<float> largest(16, 1024.0f);
  for (uint64_t i = 0; i < Round::kMostPushes; ++i) {
    ASSERT_OK(test.Add(0, 1.0f, largest));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(test.Add(1, 1.0f, largest)));
  EXPECT_THAT(test.Close(), Each(1024.0f));
}

TEST(RoundTest, AQuorumCountsWorkersAndThenItsGrace) {
  const RoundRule rule{.quorum = 2, .grace = absl::Seconds(3)};
  const std::vector<float> one(16, 1.0f);
  TestRound test(16);
  ASSERT_OK(test.Add(4, 1.0f, one, rule));
  ASSERT_OK(test.Add(4, 1.0f, one, rule));
  ASSERT_OK(test.Add(4, 1.0f, one, rule, /*incarnation=*/2));  // the same worker
  EXPECT_FALSE(test.round.HasQuorum(rule, kNow + absl::Hours(1)));
  ASSERT_OK(test.Add(5, 1.0f, one, rule));
  EXPECT_FALSE(test.round.HasQuorum(rule, kNow + absl::Seconds(2.9)));
  EXPECT_TRUE(test.round.HasQuorum(rule, kNow + absl::Seconds(3)));
  test.Close();
  ASSERT_OK(test.Add(4, 1.0f, one, rule));
  EXPECT_FALSE(test.round.HasQuorum(rule, kNow + absl::Hours(1)));
}

TEST(RoundTest, ACheckpointHoldsItAsItIs) {
  TestRound test(48, 0.1f);
  std::vector<float> up(48), down(48);
  for (size_t i = 0; i < 48; ++i) {
    up[i] = 0.37f * static_cast<float>(i);
    down[i] = -0.11f * static_cast<float>(i * i);
  }
  ASSERT_OK(test.Add(0, 0.7f, up));
  ASSERT_OK(test.Add(1, 0.3f, down));

  TestRound other(48, 0.1f);
  auto* const words = reinterpret_cast<float*>(other.sum.data());
  test.round.Split(std::span(words, 48), std::span(words + 48, 48));
  StripeRecord record;
  test.round.AddMembersTo(&record);
  other.round.Restore(record);
  EXPECT_EQ(other.sum, test.sum);
  EXPECT_EQ(other.round.members().size(), 2u);

  ASSERT_OK(test.Add(2, 1.0f, up));
  ASSERT_OK(other.Add(2, 1.0f, up));
  EXPECT_EQ(other.Close(), test.Close());
}

}  // namespace
}  // namespace monsoon
