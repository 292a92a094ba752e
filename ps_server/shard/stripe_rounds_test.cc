// A stripe that averages what it gets in rounds.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr size_t kFloats = 32;
constexpr uint64_t kEpoch = 5;

Optimizer Subtract() {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_rate(1.0);
  return optimizer;
}

Optimizer DiLoCo() {
  Optimizer optimizer;
  optimizer.mutable_nesterov()->set_rate(0.7);
  optimizer.mutable_nesterov()->set_momentum(0.9);
  return optimizer;
}

class StripeRoundsTest : public ::testing::Test {
 protected:
  StripeRoundsTest() { Make(Subtract(), {}); }

  void Make(const Optimizer& optimizer, RoundRule rule) {
    rule.clock = &clock_;
    kernel_ = *OptimizerKernel::Create(optimizer);
    slice_ = std::make_unique<SharedSlice>(*SharedSlice::Create({kEpoch, kFloats, kFloats}));
    stripe_ = MakeStripe(slice_.get(), rule);
    rule_ = rule;
    sequence_.clear();
  }
  std::unique_ptr<Stripe> MakeStripe(SharedSlice* slice, const RoundRule& rule) {
    const size_t floats = Stripe::StateFloats(*kernel_, kFloats, {.round = true});
    return std::make_unique<Stripe>(slice, 0, kernel_.get(), kEpoch, AlignedFloats(floats),
                                    Stripe::Options{.rounds = rule});
  }
  void Open(uint32_t workers) {
    for (uint32_t worker = 0; worker < workers; ++worker) stripe_->OpenSession({worker, 1});
  }
  PushVerdict PushAs(uint32_t worker, float value, uint64_t sequence, float weight = 1,
                     float part = 1) {
    const std::vector<float> gradient(kFloats, value);
    Stripe::Push push;
    push.session = {worker, 1};
    push.sequence = sequence;
    push.base_shard_epoch = base_epoch_;
    push.gradient = gradient;
    push.weight = weight;
    push.part = part;
    return stripe_->Apply(std::move(push));
  }
  Verdict Push(uint32_t worker, float value, float weight = 1) {
    return PushAs(worker, value, ++sequence_[worker], weight).verdict();
  }
  // The parameters, which are all the same.
  float Value() {
    std::vector<float> copy(kFloats);
    stripe_->Copy(std::nullopt, copy);
    EXPECT_THAT(copy, Each(copy[0]));
    return copy[0];
  }
  uint64_t Landed(uint32_t worker) {
    std::vector<float> copy(kFloats);
    return stripe_->Copy(SessionId{worker, 1}, copy)->applied_sequence();
  }
  std::optional<std::vector<uint32_t>> Awaited(uint32_t worker) {
    const auto sessions = stripe_->AwaitedBy({worker, 1});
    if (!sessions.has_value()) return std::nullopt;
    std::vector<uint32_t> workers;
    for (const SessionId& session : *sessions) workers.push_back(session.worker);
    return workers;
  }

  uint64_t base_epoch_ = 0;
  ManualClock clock_;
  RoundRule rule_;
  std::unique_ptr<OptimizerKernel> kernel_;
  std::unique_ptr<SharedSlice> slice_;
  std::unique_ptr<Stripe> stripe_;
  std::map<uint32_t, uint64_t> sequence_;
};

TEST_F(StripeRoundsTest, ARoundOfAllWaitsForAll) {
  Open(3);
  EXPECT_EQ(Push(0, -3), APPLIED);
  EXPECT_EQ(Push(2, -6), APPLIED);
  EXPECT_EQ(Value(), 0);
  EXPECT_EQ(stripe_->version(), 0u);
  EXPECT_EQ(Landed(0), 0u);
  EXPECT_THAT(Awaited(0), ::testing::Optional(ElementsAre(1)));
  EXPECT_EQ(Awaited(1), std::nullopt);  // has pushed nothing that could wait
  EXPECT_EQ(Push(1, -9), APPLIED);
  EXPECT_EQ(Value(), 6);
  EXPECT_EQ(stripe_->version(), 1u);
  EXPECT_EQ(Landed(0), 1u);
  EXPECT_EQ(Awaited(0), std::nullopt);
}

TEST_F(StripeRoundsTest, APushThatComesAgainCountsOnce) {
  Open(2);
  EXPECT_EQ(Push(0, -4), APPLIED);
  EXPECT_EQ(PushAs(0, -4, 1).verdict(), DUPLICATE);
  EXPECT_EQ(PushAs(0, -4, 3).verdict(), REFUSED_GAP);
  EXPECT_EQ(Push(1, -8), APPLIED);
  EXPECT_EQ(Value(), 6);
  EXPECT_EQ(PushAs(0, -4, 1).verdict(), DUPLICATE);
  EXPECT_EQ(Value(), 6);
  EXPECT_EQ(stripe_->version(), 1u);
}

TEST_F(StripeRoundsTest, ASecondDifferenceAddsToItsShare) {
  Open(2);
  Push(0, -2);
  Push(0, -4);
  EXPECT_EQ(Landed(0), 0u);
  Push(1, -9);
  EXPECT_EQ(Value(), 5);  // (2 + 4 + 9) / 3
  EXPECT_EQ(Landed(0), 2u);
}

TEST_F(StripeRoundsTest, ASessionThatClosesIsNotWaitedFor) {
  Open(3);
  Push(0, -2);
  Push(1, -4);
  stripe_->CloseSession({0, 1});  // what it pushed stays
  EXPECT_EQ(stripe_->version(), 0u);
  stripe_->CloseSession({2, 1});
  EXPECT_EQ(Value(), 3);
  Push(1, -1);  // alone now
  EXPECT_EQ(Value(), 4);
}

TEST_F(StripeRoundsTest, TheLastSessionLeavesNothingInTheSum) {
  Open(2);
  Push(0, -2);
  stripe_->CloseSession({1, 1});
  stripe_->CloseSession({0, 1});
  EXPECT_EQ(Value(), 2);
}

TEST_F(StripeRoundsTest, OneThatPassesIsNotWaitedForUntilItPushes) {
  Open(2);
  stripe_->Pass(SessionId{1, 1});
  Push(0, -2);
  EXPECT_EQ(Value(), 2);
  Push(0, -2);
  EXPECT_EQ(Value(), 4);
  Push(1, -7);  // a round of its own, which waits for the other again
  EXPECT_EQ(Value(), 4);
  Push(0, -1);
  EXPECT_EQ(Value(), 8);
  Push(0, -1);
  EXPECT_EQ(Value(), 8);
  stripe_->Pass(SessionId{1, 1});
  EXPECT_EQ(Value(), 9);
}

TEST_F(StripeRoundsTest, OneThatPassesDoesSoForItself) {
  Open(3);
  stripe_->Pass(SessionId{1, 1});
  Push(0, -2);
  EXPECT_THAT(Awaited(0), Optional(ElementsAre(2u)));
  EXPECT_EQ(Value(), 0);
  Push(2, -4);
  EXPECT_EQ(Value(), 3);
}

TEST_F(StripeRoundsTest, TheEndOfTheTrainingWaitsForNobody) {
  Open(2);
  EXPECT_EQ(Push(0, -2), APPLIED);
  EXPECT_EQ(Value(), 0);
  stripe_->Pass(std::nullopt);
  EXPECT_EQ(Value(), 2);
  EXPECT_EQ(stripe_->version(), 1u);
  EXPECT_EQ(Landed(0), 1u);
  stripe_->CloseSession({1, 1});  // which was waited for: there is nothing left to apply
  EXPECT_EQ(Value(), 2);
  EXPECT_EQ(stripe_->version(), 1u);
}

TEST_F(StripeRoundsTest, WithAQuorumAndNoGraceEachMovesByItself) {
  Make(Subtract(), {.quorum = 1});
  Open(2);
  Push(0, -2);
  EXPECT_EQ(Value(), 2);
  Push(1, -3);
  EXPECT_EQ(Value(), 5);
}

TEST_F(StripeRoundsTest, AGraceTakesInWhoComesInTime) {
  Make(Subtract(), {.quorum = 1, .grace = absl::Seconds(2)});
  Open(3);
  Push(0, -2);
  EXPECT_THAT(Awaited(0), ::testing::Optional(ElementsAre(1, 2)));
  clock_.Advance(absl::Seconds(1.9));
  Push(1, -4);
  EXPECT_EQ(Value(), 0);
  clock_.Advance(absl::Seconds(0.2));
  Push(2, -50);  // too late: it opens the next round
  EXPECT_EQ(Value(), 3);
  EXPECT_EQ(Landed(2), 0u);
  EXPECT_EQ(Awaited(0), std::nullopt);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Awaited(2), std::nullopt);  // who asks ends it
  EXPECT_EQ(Value(), 53);
}

TEST_F(StripeRoundsTest, AllInEndsAGraceEarly) {
  Make(Subtract(), {.quorum = 1, .grace = absl::Hours(1)});
  Open(2);
  Push(0, -2);
  Push(1, -4);
  EXPECT_EQ(Value(), 3);
}

TEST_F(StripeRoundsTest, ADifferenceThatCannotBeSummedIsRefusedAndRemembered) {
  Open(2);
  const PushVerdict refused = PushAs(0, 1e30f, 1);
  EXPECT_EQ(refused.verdict(), REFUSED_INVALID);
  EXPECT_EQ(PushAs(0, 1e30f, 1).verdict(), REFUSED_INVALID);
  EXPECT_EQ(PushAs(0, -2, 2).verdict(), APPLIED);
  EXPECT_EQ(Landed(0), 1u);  // refused, and the next one waits
  Push(1, -2);
  EXPECT_EQ(Value(), 2);
}

// The scalar oracle of synchronous DiLoCo: b <- 0.9 b + d; w <- w - 0.7 (d + 0.9 b).
TEST_F(StripeRoundsTest, SynchronousDiLoCoIsItsOracle) {
  constexpr int kRounds = 200;
  Make(DiLoCo(), {});
  Open(4);
  double w = 0, b = 0;
  for (int round = 0; round < kRounds; ++round) {
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t worker = (i * 3 + static_cast<uint32_t>(round)) % 4;
      const float d =
          0.01f * static_cast<float>((round * 7 + static_cast<int>(worker) * 5) % 11 - 5);
      const float weight = 0.25f * static_cast<float>(1 + worker);
      ASSERT_EQ(Push(worker, d, weight), APPLIED);
      sum += static_cast<double>(weight) * d;
      weights += weight;
    }
    b = 0.9 * b + sum / weights;
    w -= 0.7 * (sum / weights + 0.9 * b);
    ASSERT_NEAR(Value(), w, 1e-5) << round;
  }
  EXPECT_EQ(stripe_->version(), static_cast<uint64_t>(kRounds));
}

// A life that ends in the midst of a round, at any moment, changes nothing.
TEST_F(StripeRoundsTest, ARoundSurvivesACheckpoint) {
  for (uint32_t cut_after = 0; cut_after <= 3; ++cut_after) {
    Make(DiLoCo(), {});
    Open(3);
    for (uint32_t worker = 0; worker < 3; ++worker) Push(worker, -0.5f);
    const auto push = [&](uint32_t worker) {
      return Push(worker, -0.1f * (1.0f + static_cast<float>(worker)));
    };
    for (uint32_t worker = 0; worker < cut_after; ++worker) push(worker);
    std::vector<float> parameters(kFloats);
    std::vector<float> state(Stripe::StateFloats(*kernel_, kFloats, {.round = true}));
    const StripeRecord cut = stripe_->Cut(parameters, state);
    EXPECT_EQ(cut.member_size(), cut_after == 3 ? 0 : static_cast<int>(cut_after));
    const std::map<uint32_t, uint64_t> at_cut = sequence_;
    for (uint32_t worker = cut_after; worker < 3; ++worker) push(worker);
    const std::string whole = stripe_->Snapshot();

    auto slice = std::make_unique<SharedSlice>(*SharedSlice::Create({kEpoch, kFloats, kFloats}));
    stripe_ = MakeStripe(slice.get(), rule_);
    Open(3);
    std::ranges::copy(parameters, stripe_->MutableFloats().parameters.begin());
    std::ranges::copy(state, stripe_->MutableFloats().state.begin());
    stripe_->Restore(cut, nullptr);
    sequence_ = at_cut;
    // What the cut holds comes again, too.
    for (uint32_t worker = 0; worker < cut_after; ++worker) {
      EXPECT_EQ(PushAs(worker, -9, sequence_[worker]).verdict(), DUPLICATE);
    }
    for (uint32_t worker = cut_after; worker < 3; ++worker) EXPECT_EQ(push(worker), APPLIED);
    EXPECT_EQ(stripe_->Snapshot(), whole) << "cut after " << cut_after;
    stripe_.reset();  // before its slice
  }
}

// What came in many rounds comes again one worker after another: each difference is in a round
// of its own again, and the parameters get the bits that they had.
TEST_F(StripeRoundsTest, RoundsComeAgainOneByOne) {
  constexpr uint64_t kRounds = 6;
  Make(DiLoCo(), {});
  Open(3);
  const auto difference = [](uint32_t worker, uint64_t sequence) {
    return -0.1f * static_cast<float>(1 + worker) / static_cast<float>(sequence);
  };
  std::vector<float> parameters(kFloats);
  std::vector<float> state(Stripe::StateFloats(*kernel_, kFloats, {.round = true}));
  StripeRecord cut;
  for (uint64_t sequence = 1; sequence <= kRounds; ++sequence) {
    for (uint32_t worker = 0; worker < 3; ++worker) {
      ASSERT_EQ(PushAs(worker, difference(worker, sequence), sequence).verdict(), APPLIED);
      if (sequence == 2 && worker == 0) cut = stripe_->Cut(parameters, state);
    }
  }
  const std::string whole = stripe_->Snapshot();

  auto slice = std::make_unique<SharedSlice>(*SharedSlice::Create({kEpoch + 1, kFloats, kFloats}));
  const size_t floats = Stripe::StateFloats(*kernel_, kFloats, {.round = true});
  stripe_ = std::make_unique<Stripe>(slice.get(), 0, kernel_.get(), kEpoch + 1,
                                     AlignedFloats(floats), Stripe::Options{.rounds = rule_});
  Open(3);
  std::ranges::copy(parameters, stripe_->MutableFloats().parameters.begin());
  std::ranges::copy(state, stripe_->MutableFloats().state.begin());
  stripe_->Restore(cut, nullptr);
  base_epoch_ = kEpoch;
  // Each as far as it gets, in turn.
  uint64_t next[] = {3, 2, 2};
  for (int turn = 0; turn < 100; ++turn) {
    const auto worker = static_cast<uint32_t>(turn % 3);
    while (next[worker] <= kRounds) {
      const PushVerdict verdict = PushAs(worker, difference(worker, next[worker]), next[worker]);
      if (verdict.verdict() == REFUSED_BUSY) break;
      ASSERT_EQ(verdict.verdict(), APPLIED);
      ++next[worker];
    }
  }
  EXPECT_THAT(next, Each(kRounds + 1));
  EXPECT_EQ(stripe_->version(), kRounds);
  EXPECT_EQ(stripe_->Snapshot(), whole);
  // What is new may be a worker's second.
  base_epoch_ = kEpoch + 1;
  EXPECT_EQ(PushAs(0, -1, kRounds + 1).verdict(), APPLIED);
  EXPECT_EQ(PushAs(0, -1, kRounds + 2).verdict(), APPLIED);
  stripe_.reset();  // before its slice
}

TEST_F(StripeRoundsTest, ARestoredRoundDoesNotWaitForThoseThatAreGone) {
  Open(2);
  Push(0, -2);
  std::vector<float> parameters(kFloats);
  std::vector<float> state(Stripe::StateFloats(*kernel_, kFloats, {.round = true}));
  const StripeRecord cut = stripe_->Cut(parameters, state);
  auto slice = std::make_unique<SharedSlice>(*SharedSlice::Create({kEpoch, kFloats, kFloats}));
  stripe_ = MakeStripe(slice.get(), rule_);
  Open(1);
  std::ranges::copy(state, stripe_->MutableFloats().state.begin());
  stripe_->Restore(cut, nullptr);
  EXPECT_EQ(Value(), 2);
  stripe_.reset();
}

// DiLoCo's momentum moves the parameters once a round of whole differences, and half as far by
// halves.
TEST_F(StripeRoundsTest, ARoundOfHalvesIsHalfAStep) {
  Make(DiLoCo(), {});
  Open(2);
  Push(0, 1), Push(1, 3);
  double b = 2, w = -0.7 * (2 + 0.9 * 2);
  EXPECT_FLOAT_EQ(Value(), static_cast<float>(w));
  EXPECT_EQ(PushAs(0, 0.5f, ++sequence_[0], 1, 0.5f).verdict(), APPLIED);
  EXPECT_EQ(PushAs(1, 1.5f, ++sequence_[1], 1, 0.5f).verdict(), APPLIED);
  const double whole = 0.9 * b + 2;
  w -= 0.5 * 0.7 * (2 + 0.9 * whole);
  EXPECT_FLOAT_EQ(Value(), static_cast<float>(w));
  b += 0.5 * (whole - b);
  Push(0, 1), Push(1, 3);
  w -= 0.7 * (2 + 0.9 * (0.9 * b + 2));
  EXPECT_FLOAT_EQ(Value(), static_cast<float>(w));
}

TEST_F(StripeRoundsTest, WithoutRoundsAnEarlyEndIsAPartToo) {
  const std::unique_ptr<OptimizerKernel> kernel = *OptimizerKernel::Create(DiLoCo());
  SharedSlice slice = *SharedSlice::Create({kEpoch, kFloats, kFloats});
  stripe_ = std::make_unique<Stripe>(&slice, 0, kernel.get(), kEpoch);
  Open(1);
  Push(0, 2);
  EXPECT_EQ(PushAs(0, 1, ++sequence_[0], 1, 0.5f).verdict(), APPLIED);
  EXPECT_FLOAT_EQ(Value(), static_cast<float>(-0.7 * (2 + 0.9 * 2) - 0.5 * 0.7 * (2 + 0.9 * 3.8)));
  stripe_.reset();
}

TEST_F(StripeRoundsTest, WithoutRoundsAWeightIsAFactor) {
  SharedSlice slice = *SharedSlice::Create({kEpoch, kFloats, kFloats});
  stripe_ = std::make_unique<Stripe>(&slice, 0, kernel_.get(), kEpoch);
  Open(1);
  EXPECT_EQ(Push(0, -4, 0.5f), APPLIED);
  EXPECT_EQ(Value(), 2);
  EXPECT_EQ(Awaited(0), std::nullopt);
  stripe_.reset();
}

}  // namespace
}  // namespace monsoon
