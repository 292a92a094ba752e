#include "worker/nn/predictions.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;

std::vector<float> Predict(LossKind kind, uint64_t outputs, const std::vector<float>& row) {
  std::vector<float> predictions(row.size());
  PredictionsOf({.kind = kind, .outputs = outputs}, row, {predictions});
  const std::vector<double> precise(row.begin(), row.end());
  std::vector<float> same(row.size());
  PredictionsOf({.kind = kind, .outputs = outputs}, precise, {same});
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_TRUE(same[i] == predictions[i] || std::isnan(same[i]));
  }
  return predictions;
}

TEST(PredictionsTest, AsTheLossUnderstandsThem) {
  const float ln3 = std::log(3.0f);
  const std::vector<float> softmax = Predict(LossKind::kSoftmaxCrossEntropy, 2, {ln3, 0, 0, 0});
  EXPECT_FLOAT_EQ(softmax[0], 0.75f);
  EXPECT_FLOAT_EQ(softmax[2], 0.5f);
  for (const LossKind kind : {LossKind::kOneVersusAllLogistic, LossKind::kBinaryCrossEntropy}) {
    const std::vector<float> sigmoid = Predict(kind, 2, {ln3, -ln3, 0, -80});
    EXPECT_FLOAT_EQ(sigmoid[0], 0.75f);
    EXPECT_FLOAT_EQ(sigmoid[1], 0.25f);
    EXPECT_EQ(sigmoid[2], 0.5f);
    EXPECT_NEAR(sigmoid[3] / std::exp(-80.0), 1.0, 1e-6);
  }
  EXPECT_EQ(Predict(LossKind::kMeanSquaredError, 2, {-2, 5}), std::vector<float>({-2, 5}));
}

// Of the outputs, where the probabilities are rounded to the same one.
TEST(PredictionsTest, LabelsAreTheOutputsOwn) {
  const auto labels_of = [](const LossPlan& plan, const std::vector<float>& outputs) {
    std::vector<float> predictions(outputs.size());
    std::vector<uint32_t> labels(outputs.size() / plan.outputs);
    PredictionsOf(plan, outputs, {predictions, labels});
    const std::vector<double> precise(outputs.begin(), outputs.end());
    std::vector<uint32_t> same(labels.size());
    PredictionsOf(plan, precise, {predictions, same});
    EXPECT_EQ(same, labels);
    return labels;
  };
  EXPECT_THAT(labels_of({.kind = LossKind::kOneVersusAllLogistic, .outputs = 2},
                        {20, 30, 30, 20, 7, 7, -200, -150}),
              ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(labels_of({.kind = LossKind::kSoftmaxCrossEntropy, .outputs = 3},
                        {1, 1, 1.0000001f, 0, 0, 0}),
              ElementsAre(2, 0));
  EXPECT_THAT(labels_of({.kind = LossKind::kBinaryCrossEntropy, .outputs = 1}, {1e-9f, 0, -1e-9f}),
              ElementsAre(1, 0, 0));
}

TEST(PredictionsTest, WhatIsNotFiniteIsNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const LossKind kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kOneVersusAllLogistic,
                              LossKind::kBinaryCrossEntropy, LossKind::kMeanSquaredError}) {
    EXPECT_TRUE(std::isnan(Predict(kind, 1, {infinity, 1})[0]));
    EXPECT_FALSE(std::isnan(Predict(kind, 1, {infinity, 1})[1]));
  }
}

}  // namespace
}  // namespace monsoon
