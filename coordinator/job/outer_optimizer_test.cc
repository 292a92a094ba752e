#include "coordinator/job/outer_optimizer.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

Job Parse(const std::string& text) {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

// The rate that all shards have, by the job's text and the workers that the cluster lists.
double Rate(const std::string& text, uint32_t listed) {
  const Job job = Parse(text);
  const Optimizer optimizer = OuterOptimizer(job.downpour(), DifferenceSharers(job, listed));
  return optimizer.has_sgd() ? optimizer.sgd().rate() : 1.0;
}

constexpr char kTensors[] = "model { tensor { name: 'w' shape: 2 } } ";

TEST(OuterOptimizerTest, UnsetItAveragesAmongWhoeverIsToTrain) {
  EXPECT_EQ(Rate("downpour { local { steps: 5 } }", 3), 1.0 / 3);
  EXPECT_EQ(Rate("downpour { local { steps: 5 } }", 1), 1.0);
  EXPECT_EQ(Rate("downpour { local { steps: 5 } }", 0), 1.0);
  EXPECT_EQ(Rate("downpour { workers: 2 local { steps: 5 } }", 3), 0.5);
  // Of a program nobody knows others, unless it says so.
  EXPECT_EQ(Rate(std::string(kTensors) + "downpour { local { steps: 5 } }", 3), 1.0);
  EXPECT_EQ(Rate(std::string(kTensors) + "downpour { programs: 4 local { steps: 5 } }", 0), 0.25);
}

TEST(OuterOptimizerTest, RoundsAndOptimizersThatAreSetAreAsTheyAre) {
  EXPECT_EQ(Rate("downpour { local { steps: 5 } rounds { } }", 3), 1.0);
  EXPECT_EQ(Rate("downpour { local { steps: 5 } optimizer { sgd { rate: 0.7 } } }", 3), 0.7);
  const Job nesterov =
      Parse("downpour { local { steps: 5 } optimizer { nesterov { rate: 0.7 } } }");
  EXPECT_TRUE(OuterOptimizer(nesterov.downpour(), 3).has_nesterov());
  const Job gradients = Parse("downpour { optimizer { adagrad { rate: 0.1 } } }");
  EXPECT_EQ(DifferenceSharers(gradients, 3), 1u);
  EXPECT_TRUE(OuterOptimizer(gradients.downpour(), 1).has_adagrad());
}

TEST(OuterOptimizerTest, WhatElseIsSetStays) {
  const Job job = Parse("downpour { local { steps: 5 } optimizer { average { } damping: 1 } }");
  const Optimizer optimizer = OuterOptimizer(job.downpour(), 4);
  EXPECT_EQ(optimizer.sgd().rate(), 0.25);
  EXPECT_TRUE(optimizer.has_average());
  EXPECT_EQ(optimizer.damping(), 1.0);
}

TEST(OuterOptimizerTest, APlanWithoutANumberSubtractsWhole) {
  const Job job = Parse("downpour { local { steps: 5 } }");
  EXPECT_EQ(OuterOptimizer(job.downpour(), 0).sgd().rate(), 1.0);
}

TEST(OuterOptimizerTest, WordsTellTheRule) {
  const Job job = Parse("downpour { local { steps: 5 } }");
  EXPECT_EQ(OuterOptimizerText(job, 3),
            "sgd, rate 0.333333: the mean of 3 replicas, since no optimizer is set");
  EXPECT_THAT(OuterOptimizerText(job, 1), HasSubstr("subtracted whole"));
  EXPECT_THAT(OuterOptimizerText(Parse("downpour { local { steps: 5 } rounds { } }"), 1),
              HasSubstr("mean of each round"));
  EXPECT_EQ(OuterOptimizerText(
                Parse("downpour { local { steps: 5 } optimizer { nesterov { rate: 0.7 } } }"), 1),
            "nesterov");
  EXPECT_EQ(OuterOptimizerText(Parse("downpour { optimizer { sgd { rate: 0.7 } } }"), 1), "");
}

TEST(OuterOptimizerTest, MoreProgramsThanWereToldAreWarnedOf) {
  const Job job = Parse(std::string(kTensors) + "downpour { local { steps: 5 } }");
  EXPECT_EQ(AddedDifferences(job, 1, 1), "");
  EXPECT_THAT(AddedDifferences(job, 1, 2), HasSubstr("Say programs=2"));
  EXPECT_EQ(AddedDifferences(job, 3, 3), "");
  EXPECT_THAT(AddedDifferences(job, 3, 4), HasSubstr("subtracted by 1/3"));
  EXPECT_EQ(AddedDifferences(Parse("downpour { local { steps: 5 } }"), 1, 2), "");
}

}  // namespace
}  // namespace monsoon
