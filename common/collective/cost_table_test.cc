#include "common/collective/cost_table.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;

TEST(FitCostTest, FindsTheLineThatSamplesLieOn) {
  const std::vector<CostSample> samples = {{1000, 2e-6}, {1e6, 1.001e-3}, {4e6, 4.001e-3}};
  const Cost cost = FitCost(samples);
  EXPECT_THAT(cost.alpha, FloatNear(1e-6f, 1e-9f));
  EXPECT_THAT(cost.beta, FloatNear(1e-9f, 1e-13f));
}

TEST(FitCostTest, NothingIsNegative) {
  const std::vector<CostSample> falls = {{1000, 5e-6}, {2000, 1e-6}};
  EXPECT_EQ(FitCost(falls).beta, 0.0f);
  EXPECT_GT(FitCost(falls).alpha, 0.0f);
  const std::vector<CostSample> steep = {{1000, 1e-6}, {2000, 5e-6}};
  EXPECT_EQ(FitCost(steep).alpha, 0.0f);
  EXPECT_GT(FitCost(steep).beta, 0.0f);
  const std::vector<CostSample> one = {{1000, 1e-6}};
  EXPECT_FLOAT_EQ(FitCost(one).alpha, 1e-6f);
}

TEST(CostTableTest, ChoosesTheCheapestBySize) {
  CostTable table(4);
  for (const Algorithm algorithm : CostTable::kAlgorithms) {
    table.Set(algorithm, {1, 1});
  }
  table.Set(Algorithm::kExchange, {0.1f, 0.01f});
  table.Set(Algorithm::kRing, {0.5f, 0.001f});
  table.Set(Algorithm::kDirect, {0.7f, 0.002f});
  EXPECT_EQ(table.Choose(SumOrder::kFixed, 10), Algorithm::kExchange);
  EXPECT_EQ(table.Choose(SumOrder::kFixed, 1000), Algorithm::kRing);
  EXPECT_EQ(table.Choose(SumOrder::kByRank, 10), Algorithm::kExchange);
  EXPECT_EQ(table.Choose(SumOrder::kByRank, 1000), Algorithm::kDirect);
}

TEST(CostTableTest, TravelsAsFloats) {
  CostTable table(2), other(8);
  table.Set(Algorithm::kTree, {3e-6f, 5e-10f});
  other.FromFloats(table.ToFloats());
  for (const Algorithm algorithm : CostTable::kAlgorithms) {
    EXPECT_EQ(other.at(algorithm).alpha, table.at(algorithm).alpha);
    EXPECT_EQ(other.at(algorithm).beta, table.at(algorithm).beta);
  }
  EXPECT_THAT(other.Describe(), HasSubstr("TREE 3.0 us + 0.500 ns/B"));
}

TEST(CostTableTest, WithoutMeasurementSmallVectorsGoOnceAndLargeOnesInBlocks) {
  const CostTable table(8);
  EXPECT_EQ(table.Choose(SumOrder::kFixed, 1024), Algorithm::kExchange);
  EXPECT_EQ(table.Choose(SumOrder::kFixed, 64 << 20), Algorithm::kDirect);
}

}  // namespace
}  // namespace monsoon
