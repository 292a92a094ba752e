#include "coordinator/sandblaster/loss_ledger.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(LossLedgerTest, CountsEachContributionOnce) {
  LossLedger ledger;
  ledger.Begin(2);
  EXPECT_FALSE(ledger.complete());
  EXPECT_TRUE(ledger.Add(1, {3.0, 10, 7}));
  EXPECT_FALSE(ledger.Add(1, {3.0, 10, 7}));
  EXPECT_EQ(ledger.counted(), 1u);
  EXPECT_TRUE(ledger.Add(0, {0.5, 20, 1}));
  EXPECT_TRUE(ledger.complete());
  const ContributionLoss total = ledger.Total();
  EXPECT_EQ(total.loss_sum, 3.5);
  EXPECT_EQ(total.examples, 30u);
  EXPECT_EQ(total.correct, 8u);
  EXPECT_TRUE(total.finite);

  ledger.Begin(3);
  EXPECT_EQ(ledger.counted(), 0u);
  EXPECT_EQ(ledger.Total().examples, 0u);
}

TEST(LossLedgerTest, TheSumHasTheSameBitsInAnyOrder) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> losses(0, 8);
  std::vector<double> loss(500);
  double in_order = 0;
  for (double& value : loss) {
    value = losses(random);
    in_order += value;
  }
  std::vector<uint32_t> order(loss.size());
  std::iota(order.begin(), order.end(), 0);
  int other_bits_in_arrival_order = 0;
  for (int i = 0; i < 20; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    LossLedger ledger;
    ledger.Begin(static_cast<uint32_t>(loss.size()));
    double in_arrival_order = 0;
    for (const uint32_t id : order) {
      ASSERT_TRUE(ledger.Add(id, {loss[id], 1, 0}));
      in_arrival_order += loss[id];
    }
    EXPECT_EQ(std::bit_cast<uint64_t>(ledger.Total().loss_sum), std::bit_cast<uint64_t>(in_order));
    other_bits_in_arrival_order += in_arrival_order != in_order;
  }
  EXPECT_GT(other_bits_in_arrival_order, 0);  // The losses would show a wrong order.
}

TEST(LossLedgerTest, OneNonFiniteContributionMakesTheSumInfinite) {
  LossLedger ledger;
  ledger.Begin(3);
  EXPECT_TRUE(ledger.Add(2, {1.0, 5, 0}));
  EXPECT_TRUE(ledger.finite());
  EXPECT_TRUE(ledger.Add(0, {.loss_sum = 2.0, .examples = 5, .finite = false}));
  EXPECT_FALSE(ledger.finite());
  EXPECT_EQ(ledger.Total().loss_sum, std::numeric_limits<double>::infinity());

  for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    ledger.Begin(1);
    EXPECT_TRUE(ledger.finite());
    EXPECT_TRUE(ledger.Add(0, {bad, 5, 0}));
    EXPECT_FALSE(ledger.finite());
    EXPECT_EQ(ledger.Total().loss_sum, std::numeric_limits<double>::infinity());
  }
}

}  // namespace
}  // namespace monsoon
