#include "ps_server/shard/stripe.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/optimizer/range_kernel.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

constexpr size_t kFloats = 4096;

std::unique_ptr<OptimizerKernel> Sgd() {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_rate(1.0);
  return *OptimizerKernel::Create(optimizer);
}

// A slice of one stripe.
SharedSlice OneStripe(uint64_t floats) { return *SharedSlice::Create({5, floats, floats}); }

// Every push moves all values by the same amount, so a copy with two different
// values would be torn.
TEST(StripeTest, CopiesAreNeverTornAndVersionsNeverGoBack) {
  const auto kernel = Sgd();
  SharedSlice slice = OneStripe(kFloats);
  Stripe stripe(&slice, 0, kernel.get(), /*shard_epoch=*/5);
  constexpr uint64_t kPushes = 2000;
  constexpr uint32_t kWriters = 2;
  std::atomic<uint32_t> running{kWriters};
  std::vector<std::jthread> threads;
  for (uint32_t writer = 0; writer < kWriters; ++writer) {
    stripe.OpenSession({writer, 1});
    threads.emplace_back([&stripe, &running, writer] {
      const std::vector<float> gradient(kFloats, -1.0f);
      for (uint64_t sequence = 1; sequence <= kPushes; ++sequence) {
        Stripe::Push push;
        push.session = {writer, 1};
        push.sequence = sequence;
        push.gradient = gradient;
        EXPECT_EQ(stripe.Apply(std::move(push)).verdict(), APPLIED);
      }
      --running;
    });
  }
  uint64_t last_version = 0, last_sequence = 0;
  std::vector<float> copy(kFloats);
  bool last_round = false;
  do {
    last_round = running == 0;
    const std::optional<FetchRecord> record = stripe.Copy(SessionId{0, 1}, copy);
    ASSERT_TRUE(record.has_value());
    ASSERT_GE(record->version(), last_version);
    ASSERT_GE(record->applied_sequence(), last_sequence);
    last_version = record->version();
    last_sequence = record->applied_sequence();
    for (size_t i = 0; i < kFloats; ++i) {
      ASSERT_EQ(copy[i], static_cast<float>(last_version)) << "torn at " << i;
    }
  } while (!last_round);
  EXPECT_EQ(last_version, kWriters * kPushes);
}

TEST(StripeTest, StatisticsTakeLessOfWhatWasUnderWayForLong) {
  Optimizer optimizer;
  optimizer.mutable_adagrad()->set_rate(1.0);
  const auto kernel = *CreateRangeKernel(optimizer, {.statistics = {{0, 16}}}, {0, 16});
  SharedSlice slice = OneStripe(16);
  Stripe stripe(&slice, 0, kernel.get(), /*shard_epoch=*/5);
  stripe.OpenSession({0, 1});
  uint64_t sequence = 0;
  const auto push = [&](float value, uint64_t base_epoch, uint64_t base) {
    const std::vector<float> values(16, value);
    Stripe::Push push;
    push.session = {0, 1};
    push.sequence = ++sequence;
    push.base_shard_epoch = base_epoch;
    push.base_version = base;
    push.gradient = values;
    EXPECT_EQ(stripe.Apply(std::move(push)).verdict(), APPLIED);
    std::vector<float> copy(16);
    EXPECT_TRUE(stripe.Copy(std::nullopt, copy).has_value());
    return copy[3];
  };
  EXPECT_EQ(push(8, 5, 0), 8);
  EXPECT_EQ(push(0, 5, 0), 4) << "one came between";
  EXPECT_EQ(push(2, 5, 2), 2);
  EXPECT_EQ(push(10, 5, 0), 4) << "three came between";
  EXPECT_EQ(push(6, 4, 4), 5) << "nobody knows, of one session";
}

TEST(StripeTest, NothingIsAppliedAfterCloseReturns) {
  const auto kernel = Sgd();
  for (int round = 0; round < 50; ++round) {
    SharedSlice slice = OneStripe(16);
    Stripe stripe(&slice, 0, kernel.get(), 5);
    stripe.OpenSession({0, 1});
    std::atomic<bool> stop{false};
    std::jthread pusher([&] {
      const std::vector<float> gradient(16, 1.0f);
      for (uint64_t sequence = 1; !stop; ++sequence) {
        Stripe::Push push;
        push.session = {0, 1};
        push.sequence = sequence;
        push.gradient = gradient;
        if (stripe.Apply(std::move(push)).verdict() == REFUSED_SESSION) {
          return;
        }
      }
    });
    while (stripe.version() == 0) {
      std::this_thread::yield();
    }
    const uint64_t applied = stripe.CloseSession({0, 1}).applied;
    EXPECT_EQ(stripe.version(), applied);
    pusher.join();  // it is refused and ends
    EXPECT_EQ(stripe.version(), applied);
    EXPECT_EQ(stripe.CloseSession({0, 1}).applied, 0u);
  }
}

TEST(StripeTest, ACopyForAnUnknownSessionIsNone) {
  const auto kernel = Sgd();
  SharedSlice slice = OneStripe(16);
  Stripe stripe(&slice, 0, kernel.get(), 5);
  std::vector<float> copy(16);
  EXPECT_FALSE(stripe.Copy(SessionId{0, 1}, copy).has_value());
  EXPECT_TRUE(stripe.Copy(std::nullopt, copy).has_value());
}

TEST(StripeTest, AStalePushIsDamped) {
  const auto kernel = Sgd();
  SharedSlice slice = OneStripe(16);
  Stripe stripe(&slice, 0, kernel.get(), /*shard_epoch=*/5, AlignedFloats(), {.damping = 0.5});
  stripe.OpenSession({0, 1});
  const std::vector<float> gradient(16, -4.0f);
  std::vector<float> copy(16);
  uint64_t sequence = 0;
  const auto moves = [&](uint64_t base_epoch, uint64_t base_version) {
    stripe.Copy(std::nullopt, copy);
    const float before = copy[0];
    Stripe::Push push;
    push.session = {0, 1};
    push.sequence = ++sequence;
    push.base_shard_epoch = base_epoch;
    push.base_version = base_version;
    push.gradient = gradient;
    EXPECT_EQ(stripe.Apply(std::move(push)).verdict(), APPLIED);
    stripe.Copy(std::nullopt, copy);
    return copy[0] - before;
  };
  EXPECT_EQ(moves(5, 0), 4.0f);
  EXPECT_EQ(moves(5, 1), 4.0f);
  EXPECT_EQ(moves(5, 2), 4.0f);
  EXPECT_EQ(moves(5, 0), 2.0f);  // three versions: the root of 1 / 4
  EXPECT_EQ(moves(4, 4), 4.0f);  // of another life: not known
}

}  // namespace
}  // namespace monsoon
