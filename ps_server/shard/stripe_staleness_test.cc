// What becomes of pushes that others have overtaken, by each policy, against a few lines of scalar
// arithmetic; and that a record keeps its first verdict through new starts of the shard.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/optimizer/range_kernel.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

constexpr size_t kFloats = 16;

struct Policy {
  double damping = 0;
  std::optional<uint32_t> most_stale;
};

// A stripe of the life `epoch` of its shard.
class Shard {
 public:
  Shard(const Policy& policy, uint64_t epoch)
      : epoch_(epoch), slice_(*SharedSlice::Create({epoch, kFloats, kFloats})) {
    Optimizer optimizer;
    optimizer.mutable_sgd()->set_rate(0.5);
    kernel_ = *OptimizerKernel::Create(optimizer);
    Stripe::Options options;
    options.damping = policy.damping;
    options.most_stale = policy.most_stale.value_or(Stripe::kAnyStaleness);
    stripe_.emplace(&slice_, 0, kernel_.get(), epoch,
                    AlignedFloats(Stripe::StateFloats(*kernel_, kFloats)), options);
  }
  void Open(SessionId session) { stripe_->OpenSession(session); }
  PushVerdict Push(SessionId session, uint64_t sequence, uint64_t base_epoch, uint64_t base,
                   float value, bool dropped = false) {
    const std::vector<float> gradient(kFloats, value);
    Stripe::Push push;
    push.session = session;
    push.sequence = sequence;
    push.base_shard_epoch = base_epoch;
    push.base_version = base;
    push.gradient = gradient;
    push.dropped = dropped;
    return stripe_->Apply(std::move(push));
  }
  float value() const {
    std::vector<float> copy(kFloats);
    EXPECT_TRUE(stripe_->Copy(std::nullopt, copy).has_value());
    return copy[7];
  }
  // The state of another life is this one's from now on.
  void Take(const Shard& earlier) {
    std::vector<float> parameters(kFloats), state(Stripe::StateFloats(*kernel_, kFloats));
    const StripeRecord cut = earlier.stripe_->Cut(parameters, state);
    const Stripe::Floats floats = stripe_->MutableFloats();
    std::ranges::copy(parameters, floats.parameters.begin());
    std::ranges::copy(state, floats.state.begin());
    stripe_->Restore(cut, nullptr);
  }
  uint64_t epoch() const { return epoch_; }
  uint64_t version() const { return stripe_->version(); }

 private:
  const uint64_t epoch_;
  SharedSlice slice_;
  std::unique_ptr<OptimizerKernel> kernel_;
  std::optional<Stripe> stripe_;
};

TEST(StripeStalenessTest, WhatIsTooOldIsDroppedAndConsumesItsSequence) {
  Shard shard({.most_stale = 2}, 5);
  shard.Open({0, 1});
  shard.Open({1, 1});
  EXPECT_EQ(shard.Push({1, 1}, 1, 5, 0, 1).verdict(), APPLIED);
  EXPECT_EQ(shard.Push({1, 1}, 2, 5, 1, 1).verdict(), APPLIED);
  EXPECT_EQ(shard.Push({0, 1}, 1, 5, 0, 1).verdict(), APPLIED) << "two came between, and no more";
  EXPECT_EQ(shard.value(), -1.5f);
  PushVerdict verdict = shard.Push({0, 1}, 2, 5, 0, 100);
  EXPECT_EQ(verdict.verdict(), DROPPED);
  EXPECT_EQ(verdict.version(), 3u);
  EXPECT_EQ(shard.value(), -1.5f);
  EXPECT_EQ(shard.version(), 3u);
  EXPECT_EQ(shard.Push({0, 1}, 2, 5, 3, 100).verdict(), DROPPED) << "whatever it says now";
  EXPECT_EQ(shard.Push({0, 1}, 4, 5, 3, 1).verdict(), REFUSED_GAP);
  EXPECT_EQ(shard.Push({0, 1}, 3, 5, 3, 1).verdict(), APPLIED);
  EXPECT_EQ(shard.Push({0, 1}, 1, 5, 3, 1).verdict(), DUPLICATE);
}

TEST(StripeStalenessTest, WithoutABoundNothingIsDropped) {
  Shard shard({}, 5);
  shard.Open({0, 1});
  for (uint64_t sequence = 1; sequence <= 100; ++sequence) {
    EXPECT_EQ(shard.Push({0, 1}, sequence, 5, 0, 1).verdict(), APPLIED);
  }
  EXPECT_EQ(shard.value(), -50.0f);
}

TEST(StripeStalenessTest, ARecordKeepsItsFirstVerdict) {
  Shard first({.most_stale = 0}, 5);
  first.Open({0, 1});
  EXPECT_EQ(first.Push({0, 1}, 1, 5, 0, 1).verdict(), APPLIED);
  Shard second({.most_stale = 0}, 6);  // of a generation that was written now
  second.Open({0, 1});
  second.Take(first);
  EXPECT_EQ(first.Push({0, 1}, 2, 5, 0, 1).verdict(), DROPPED);
  EXPECT_EQ(first.Push({0, 1}, 3, 5, 1, 1).verdict(), APPLIED);
  // What the generation lacks comes again. Nobody knows how old it is, but its sender knows what
  // had become of it.
  EXPECT_EQ(second.Push({0, 1}, 2, 5, 0, 1, /*dropped=*/true).verdict(), DROPPED);
  EXPECT_EQ(second.Push({0, 1}, 3, 5, 1, 1).verdict(), APPLIED);
  EXPECT_EQ(second.value(), first.value());
  // One that was lost before anybody told its sender is of unknown staleness, and counts.
  EXPECT_EQ(second.Push({0, 1}, 4, 5, 0, 1).verdict(), APPLIED);
  // What was dropped before the generation was written, the generation knows.
  Shard third({.most_stale = 0}, 7);
  third.Open({0, 1});
  third.Take(second);
  EXPECT_EQ(third.Push({0, 1}, 2, 5, 0, 1).verdict(), DROPPED);
  EXPECT_EQ(third.Push({0, 1}, 4, 5, 0, 1).verdict(), DUPLICATE);
}

struct Sent {
  uint64_t epoch, base;
  Verdict verdict;
};

// Pushes of three sessions in any order, computed from any version that the session has seen,
// with copies of earlier ones and new starts of the shard between.
TEST(StripeStalenessTest, EachPolicyIsTheOracle) {
  const Policy policies[] = {
      {}, {.damping = 0.5}, {.most_stale = 3}, {.damping = 1, .most_stale = 5}};
  for (const Policy& policy : policies) {
    for (uint32_t seed = 0; seed < 50; ++seed) {
      SCOPED_TRACE(seed);
      std::mt19937 random(seed);
      auto shard = std::make_unique<Shard>(policy, 1);
      std::map<uint32_t, std::vector<Sent>> sent;
      for (uint32_t worker = 0; worker < 3; ++worker) {
        shard->Open({worker, 1});
      }
      float w = 0;
      uint64_t version = 0;
      int dropped = 0;
      for (int step = 0; step < 200; ++step) {
        const uint32_t worker = random() % 3;
        std::vector<Sent>& own = sent[worker];
        if (random() % 20 == 0) {
          auto next = std::make_unique<Shard>(policy, shard->epoch() + 1);
          for (uint32_t each = 0; each < 3; ++each) {
            next->Open({each, 1});
          }
          next->Take(*shard);
          shard = std::move(next);
        }
        if (!own.empty() && random() % 4 == 0) {
          const size_t again = own.size() - 1 - random() % std::min<size_t>(own.size(), 20);
          const Verdict verdict =
              shard->Push({worker, 1}, again + 1, own[again].epoch, own[again].base, 77).verdict();
          ASSERT_EQ(verdict, own[again].verdict == DROPPED ? DROPPED : DUPLICATE);
          continue;
        }
        const uint64_t epoch = shard->epoch() - (random() % 10 == 0 ? 1 : 0);
        const uint64_t base = version - std::min<uint64_t>(version, random() % 9);
        const float value = static_cast<float>(random() % 64) / 8;
        const std::optional<uint64_t> staleness =
            epoch == shard->epoch() ? std::optional<uint64_t>(version - base) : std::nullopt;
        const bool drop = policy.most_stale && staleness && *staleness > *policy.most_stale;
        if (!drop) {
          const double factor =
              staleness ? std::pow(1.0 + static_cast<double>(*staleness), -policy.damping) : 1.0;
          w -= 0.5f * (static_cast<float>(factor) * value);
          ++version;
        }
        dropped += drop ? 1 : 0;
        const PushVerdict verdict = shard->Push({worker, 1}, own.size() + 1, epoch, base, value);
        ASSERT_EQ(verdict.verdict(), drop ? DROPPED : APPLIED);
        own.push_back({epoch, base, verdict.verdict()});
        ASSERT_EQ(shard->version(), version);
        ASSERT_FLOAT_EQ(shard->value(), w);
      }
      EXPECT_EQ(dropped > 0, policy.most_stale.has_value());
    }
  }
}

}  // namespace
}  // namespace monsoon
