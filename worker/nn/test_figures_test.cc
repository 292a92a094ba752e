#include "worker/nn/test_figures.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

LossPlan PlanOf(LossKind kind, uint64_t outputs, uint64_t steps = 1) {
  return {.kind = kind, .outputs = outputs, .steps = steps};
}

TEST(AreaUnderCurveTest, EqualsPairsCountedByHand) {
  // Of the 2 x 3 pairs the yes of 0.9 wins 3, that of 0.4 wins 1 and halves 1: 4.5 / 6.
  EXPECT_EQ(AreaUnderCurve(std::vector<Prediction>{
                {1, 1, 0.4f}, {0, 0, 0.4f}, {1, 1, 0.9f}, {0, 0, -1}, {0, 0, 0.5f}}),
            0.75);
  EXPECT_EQ(AreaUnderCurve(std::vector<Prediction>{{1, 1, 2}, {0, 0, 1}}), 1.0);
  EXPECT_EQ(AreaUnderCurve(std::vector<Prediction>{{1, 1, 1}, {0, 0, 2}}), 0.0);
  EXPECT_EQ(AreaUnderCurve(std::vector<Prediction>{{1, 1, 1}, {0, 0, 1}, {0, 0, 1}}), 0.5);
}

TEST(AreaUnderCurveTest, NeedsBothClassesAndNumbers) {
  EXPECT_EQ(AreaUnderCurve({}), std::nullopt);
  EXPECT_EQ(AreaUnderCurve(std::vector<Prediction>{{1, 1, 2}, {1, 0, 1}}), std::nullopt);
  EXPECT_EQ(AreaUnderCurve(std::vector<Prediction>{
                {1, 1, 2}, {0, 0, 1}, {0, 0, std::numeric_limits<float>::quiet_NaN()}}),
            std::nullopt);
}

TEST(JudgeTest, TheFiveLargestOfEqualOnesTheFirst) {
  Judge judge(PlanOf(LossKind::kSoftmaxCrossEntropy, 6));
  // Labels at ranks 4, 5 and, of six equal ones, 4 and 5.
  const std::vector<float> outputs = {6, 5, 4, 3, 2, 1, 6, 5, 4, 3, 2, 1,
                                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<uint32_t> labels = {4, 5, 4, 5};
  const Judgement judgement = judge.Of(outputs, {.labels = labels, .examples = 4});
  EXPECT_EQ(judgement.top5, 2u);
  EXPECT_THAT(judgement.predictions, ElementsAre(Prediction{4, 0, 0}, Prediction{5, 0, 0},
                                                 Prediction{4, 0, 0}, Prediction{5, 0, 0}));
  TestFigures figures;
  figures.Add(judgement, 4);
  const std::vector<double> precise(outputs.begin(), outputs.begin() + 6);
  figures.Add(judge.Of(precise, {.labels = std::span(labels).first(1), .examples = 1}), 1);
  EXPECT_THAT(figures.Metrics(1.5, 0.25),
              ElementsAre(Pair("accuracy", 0.25), Pair("loss", 1.5), Pair("top5", 0.6)));
}

TEST(JudgeTest, WhatIsNoNumberIsNotAmongTheFiveLargest) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Judge judge(PlanOf(LossKind::kSoftmaxCrossEntropy, 6));
  // All outputs, the label's alone, the others' alone, one other.
  const std::vector<float> outputs = {kNan, kNan, kNan, kNan, kNan, kNan, kNan, 5, 4, 3, 2, 1,
                                      6,    kNan, kNan, kNan, kNan, kNan, kNan, 5, 4, 3, 2, 1};
  const std::vector<uint32_t> labels = {0, 0, 0, 1};
  EXPECT_EQ(judge.Of(outputs, {.labels = labels, .examples = 4}).top5, 1u);
}

TEST(JudgeTest, FourClassesHaveLossAndAccuracyAlone) {
  Judge judge(PlanOf(LossKind::kOneVersusAllLogistic, 4));
  const std::vector<float> outputs = {0, 1, 3, 2};
  const std::vector<uint32_t> labels = {3};
  TestFigures figures;
  figures.Add(judge.Of(outputs, {.labels = labels, .examples = 1}), 1);
  EXPECT_THAT(figures.Metrics(1, 0), IsEmpty());
  EXPECT_THAT(figures.predictions(), ElementsAre(Prediction{3, 2, 0}));
}

TEST(JudgeTest, YesOrNoIsTheSignAndHasAnArea) {
  Judge judge(PlanOf(LossKind::kBinaryCrossEntropy, 1));
  const std::vector<float> outputs = {0.5f, -0.5f, 0};
  const std::vector<uint32_t> labels = {1, 0, 1};
  TestFigures figures;
  figures.Add(judge.Of(outputs, {.labels = labels, .examples = 3}), 3);
  EXPECT_THAT(figures.predictions(),
              ElementsAre(Prediction{1, 1, 0.5f}, Prediction{0, 0, -0.5f}, Prediction{1, 0, 0}));
  // A batch later: a no above one yes of two.
  const std::vector<float> later = {0.25f};
  const std::vector<float> target = {0.25f};
  figures.Add(judge.Of(later, {.targets = target, .examples = 1}), 1);
  EXPECT_THAT(figures.Metrics(1, 0.5),
              ElementsAre(Pair("accuracy", 0.5), Pair("loss", 1), Pair("auc", 0.75)));
}

TEST(JudgeTest, RegressionHasASquaredErrorAndNoAccuracy) {
  Judge judge(PlanOf(LossKind::kMeanSquaredError, 2));
  const std::vector<float> outputs = {1, 2, 3, 4};
  const std::vector<float> targets = {1, 0, 0, 5};
  const std::vector<float> weights = {7, 9};  // of the loss
  TestFigures figures;
  figures.Add(judge.Of(outputs, {.targets = targets, .weights = weights, .examples = 2}), 2);
  // (4 / 2 + (9 + 1) / 2) / 2.
  EXPECT_THAT(figures.Metrics(30, std::nullopt), ElementsAre(Pair("loss", 30), Pair("mse", 3.5)));
  Judge of_label(PlanOf(LossKind::kMeanSquaredError, 1));
  const std::vector<uint32_t> labels = {4};
  TestFigures single;
  single.Add(of_label.Of(std::span(outputs).first(1), {.labels = labels, .examples = 1}), 1);
  EXPECT_THAT(single.Metrics(9, std::nullopt), ElementsAre(Pair("loss", 9), Pair("mse", 9)));
}

TEST(JudgeTest, SequencesOfBytesHaveBits) {
  const std::vector<float> outputs(2 * 256);
  const std::vector<uint32_t> labels = {1, 2};
  const std::vector<float> weights = {1};
  const auto metrics = [&](const LossPlan& plan, std::span<const float> weighted) {
    Judge judge(plan);
    TestFigures figures;
    figures.Add(judge.Of(outputs, {.labels = labels, .weights = weighted, .examples = 1}), 1);
    return figures.Metrics(std::log(256.0), 0.0);
  };
  LossPlan plan = PlanOf(LossKind::kSoftmaxCrossEntropy, 256, 2);
  EXPECT_THAT(metrics(plan, {}), ElementsAre(Pair("accuracy", 0), Pair("loss", std::log(256.0)),
                                             Pair("bits_per_byte", DoubleEq(8))));
  EXPECT_THAT(metrics(plan, weights), IsEmpty());
  plan.label_smoothing = 0.1;
  EXPECT_THAT(metrics(plan, {}), IsEmpty());
}

TEST(JudgeTest, SeveralTargetsAreNotJudged) {
  Judge judge(PlanOf(LossKind::kBinaryCrossEntropy, 5));
  const std::vector<float> outputs(5), targets(5);
  TestFigures figures;
  figures.Add(judge.Of(outputs, {.targets = targets, .examples = 1}), 1);
  EXPECT_THAT(figures.Metrics(0.5, std::nullopt), ElementsAre(Pair("loss", 0.5)));
}

}  // namespace
}  // namespace monsoon
