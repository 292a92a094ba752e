#include "worker/downpour/gradient_clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;

TEST(ClipGradientNormTest, ScalesOnlyWhatIsLonger) {
  std::vector<float> g = {3, 4};
  EXPECT_DOUBLE_EQ(ClipGradientNorm(g, 10), 5.0);
  EXPECT_THAT(g, ElementsAre(3, 4));
  EXPECT_DOUBLE_EQ(ClipGradientNorm(g, 2.5), 5.0);
  EXPECT_THAT(g, ElementsAre(1.5f, 2.0f));
  ClipGradientNorm(g, 0);  // off
  EXPECT_THAT(g, ElementsAre(1.5f, 2.0f));
}

TEST(ClipGradientNormTest, SurvivesValuesWhoseSquaresOverflowFloat) {
  std::vector<float> g = {3e30f, 4e30f};
  ClipGradientNorm(g, 5);
  EXPECT_FLOAT_EQ(g[0], 3.0f);
  EXPECT_FLOAT_EQ(g[1], 4.0f);
}

TEST(ClipGradientNormTest, LeavesNonFiniteForTheCheck) {
  std::vector<float> g = {1, std::numeric_limits<float>::infinity()};
  ClipGradientNorm(g, 1);
  EXPECT_EQ(g[0], 1.0f);
}

TEST(ClipGradientNormTest, WhatIsLeftOutNeitherCountsNorChanges) {
  const std::vector<Slice> left_out = {{0, 1}, {2, 4}, {5, 6}};
  std::vector<float> g = {100, 3, 200, 300, 4, 400};
  EXPECT_DOUBLE_EQ(ClipGradientNorm(g, 2.5, left_out), 5.0);
  EXPECT_THAT(g, ElementsAre(100, 1.5f, 200, 300, 2.0f, 400));
  EXPECT_DOUBLE_EQ(ClipGradientNorm(g, 1, std::vector<Slice>{{0, 6}}), 0.0);
  EXPECT_EQ(g[1], 1.5f);
}

TEST(NameFirstNonFiniteTest, NamesTheTensor) {
  Model model;
  model.add_input_shape(3);
  model.add_layer()->mutable_dense()->set_units(5);
  const ParameterLayout layout = *ParameterLayout::Create(model);
  std::vector<float> values(layout.size(), 0.0f);
  EXPECT_EQ(NameFirstNonFinite(layout, values), "");
  const TensorInfo& bias = layout.tensors().at(1);
  values[bias.offset + 2] = std::nanf("");
  EXPECT_EQ(NameFirstNonFinite(layout, values), "dense1/bias[2]");
  values[layout.tensors()[0].offset] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(NameFirstNonFinite(layout, values), "dense1/weight[0]");
}

}  // namespace
}  // namespace monsoon
