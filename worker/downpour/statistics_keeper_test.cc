#include "worker/downpour/statistics_keeper.h"

#include <vector>

#include "common/testing/status_matchers.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// A tensor that is trained, and one of statistics, each of 16 floats: a program's.
ParameterLayout ProgramsLayout() {
  Model model;
  for (const char* name : {"w", "mean"}) {
    ModelTensor* const tensor = model.add_tensor();
    tensor->set_name(name);
    tensor->add_shape(16);
    tensor->set_kind(name[0] == 'w' ? ModelTensor::TRAINED : ModelTensor::STATISTIC);
  }
  return *ParameterLayout::Create(model);
}

ParameterLayout NetworksLayout() {
  Model model;
  model.add_input_shape(16);
  model.add_layer()->mutable_batch_norm()->set_no_scale(true);
  Dense* const dense = model.add_layer()->mutable_dense();
  dense->set_units(4);
  dense->set_no_bias(true);
  return *ParameterLayout::Create(model);
}

class StatisticsKeeperTest : public ::testing::Test {
 protected:
  explicit StatisticsKeeperTest(ParameterLayout layout) : layout_(std::move(layout)) {}

  std::vector<float> Of(float value) const { return std::vector<float>(layout_.size(), value); }
  // The first of the statistics, and the first of what is trained.
  std::vector<float> Ends(const StatisticsKeeper& keeper, const std::vector<float>& w) const {
    const size_t statistic = keeper.parts()[0].begin;
    const size_t trained = statistic == 0 ? keeper.parts().back().end : 0;
    return {w[statistic], w[trained]};
  }

  const ParameterLayout layout_;
};

class ProgramsStatisticsTest : public StatisticsKeeperTest {
 protected:
  ProgramsStatisticsTest() : StatisticsKeeperTest(ProgramsLayout()) {}
};

class NetworksStatisticsTest : public StatisticsKeeperTest {
 protected:
  NetworksStatisticsTest() : StatisticsKeeperTest(NetworksLayout()) {}
};

TEST_F(ProgramsStatisticsTest, AProgramsStepMovesThemAndAPushBringsThemAsTheyWere) {
  StatisticsKeeper keeper(layout_, {});
  EXPECT_FALSE(keeper.of_network());
  std::vector<float> front = Of(5), gradient = Of(2);
  keeper.MeanOfRound(gradient, 2);  // a program's are its own
  keeper.TakeStep(front, gradient);
  EXPECT_THAT(Ends(keeper, front), ElementsAre(3, 5));
  keeper.KeepForPush(front);
  front = Of(100);  // lands
  keeper.WriteTo(gradient, front);
  EXPECT_THAT(Ends(keeper, gradient), ElementsAre(3, 2));
}

TEST_F(ProgramsStatisticsTest, WhatLandsBetweenStepsComesToAMean) {
  const StatisticsKeeper keeper(layout_, {});
  std::vector<float> landed = Of(4);
  keeper.LandOpen(Of(2), landed);
  EXPECT_THAT(Ends(keeper, landed), ElementsAre(3, 4));
  landed = Of(4);
  keeper.LandOpen({}, landed);
  EXPECT_THAT(landed, Each(4));
}

TEST_F(ProgramsStatisticsTest, UnderALocalUpdateThePushBringsWhatItMade) {
  StatisticsKeeper keeper(layout_, {.local_update = true});
  std::vector<float> front = Of(5), gradient = Of(2);
  keeper.TakeStep(front, gradient);  // the update has moved them
  EXPECT_THAT(front, Each(5));
  keeper.KeepForPush(front);
  front = Of(100);
  keeper.WriteTo(gradient, front);
  EXPECT_THAT(Ends(keeper, gradient), ElementsAre(100, 2));
}

TEST_F(ProgramsStatisticsTest, OfWhatALocalUpdateAddsTheMeanStays) {
  const StatisticsKeeper keeper(layout_, {.local_update = true});
  const std::vector<float> fetched = keeper.Landing(Of(4));
  EXPECT_EQ(fetched.size(), 16u);
  std::vector<float> w = Of(9);
  keeper.LandUpdated(fetched, Of(2), w);
  EXPECT_THAT(Ends(keeper, w), ElementsAre(3, 9));
  w = Of(4);  // nothing was added
  keeper.LandUpdated(fetched, Of(2), w);
  EXPECT_THAT(w, Each(4));
  w = Of(9);  // what this replica had is given up
  keeper.LandUpdated(fetched, {}, w);
  EXPECT_THAT(Ends(keeper, w), ElementsAre(4, 9));
}

TEST_F(ProgramsStatisticsTest, ShardsThatTakeNoValuesGetDifferences) {
  StatisticsKeeper keeper(layout_, {.values = false});
  std::vector<float> front = Of(5), gradient = Of(2);
  keeper.TakeStep(front, gradient);
  keeper.KeepForPush(front);
  keeper.WriteTo(gradient, front);
  keeper.LandOpen(Of(1), front);
  EXPECT_THAT(front, Each(5));
  EXPECT_THAT(gradient, Each(2));
  EXPECT_TRUE(keeper.Landing(front).empty());
}

TEST_F(NetworksStatisticsTest, APushIsTheMeanOfItsRoundsAndTheyOfTheirBatches) {
  StatisticsKeeper keeper(layout_, {});
  EXPECT_TRUE(keeper.of_network());
  std::vector<float> front = Of(10), gradient = Of(6);
  keeper.MeanOfRound(gradient, 3);
  EXPECT_THAT(Ends(keeper, gradient), ElementsAre(2, 6));
  keeper.TakeStep(front, gradient);
  EXPECT_THAT(front, Each(10));
  EXPECT_THAT(Ends(keeper, gradient), ElementsAre(8, 6));
  keeper.MeanOfPush(gradient, 4);
  EXPECT_THAT(Ends(keeper, gradient), ElementsAre(2, 6));
  keeper.MeanOfPush(gradient, 1);
  EXPECT_THAT(Ends(keeper, gradient), ElementsAre(2, 6));
}

TEST_F(NetworksStatisticsTest, StepsOfALocalUpdateAreNoMean) {
  const StatisticsKeeper keeper(layout_, {.local_update = true});
  std::vector<float> gradient = Of(6);
  keeper.MeanOfPush(gradient, 3);
  EXPECT_THAT(gradient, Each(6));
}

TEST(NoStatisticsTest, NothingIsDone) {
  Model model;
  ModelTensor* const tensor = model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(16);
  StatisticsKeeper keeper(*ParameterLayout::Create(model), {});
  std::vector<float> front(16, 5.0f), gradient(16, 2.0f);
  keeper.MeanOfRound(gradient, 3);
  keeper.TakeStep(front, gradient);
  keeper.KeepForPush(front);
  keeper.WriteTo(gradient, front);
  keeper.MeanOfPush(gradient, 3);
  keeper.LandOpen(std::vector<float>(16, 1.0f), front);
  EXPECT_THAT(front, Each(5));
  EXPECT_THAT(gradient, Each(2));
}

}  // namespace
}  // namespace monsoon
