#include "common/optimizer/optimizer_groups.h"

#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return optimizer;
}

// What OfGroup makes of the first group.
std::string First(const std::string& text) {
  const Optimizer optimizer = Parse(text);
  return OfGroup(optimizer, optimizer.group(0)).ShortDebugString();
}

TEST(OptimizerGroupsTest, PatternsAreWholeNames) {
  const Optimizer optimizer = Parse(
      "group { tensors: '*.bias' tensors: 'norm?' } group { tensors: 'head.*' } group { tensors: "
      "'layer1/weight' }");
  EXPECT_EQ(GroupOf(optimizer, "a.b.bias"), 0);
  EXPECT_EQ(GroupOf(optimizer, "head.bias"), 0);  // the first that names it
  EXPECT_EQ(GroupOf(optimizer, "head.weight"), 1);
  EXPECT_EQ(GroupOf(optimizer, "norm1"), 0);
  EXPECT_EQ(GroupOf(optimizer, "norm12"), std::nullopt);
  EXPECT_EQ(GroupOf(optimizer, "a.bias.x"), std::nullopt);
  EXPECT_EQ(GroupOf(optimizer, "layer1/weight"), 2);
  EXPECT_EQ(GroupOf(optimizer, "layer1/weights"), std::nullopt);
  // As Python writes names that have characters of patterns.
  const Optimizer escaped = Parse("group { tensors: 'a[[]0].weight' tensors: 'b[*].weight' }");
  EXPECT_EQ(GroupOf(escaped, "a[0].weight"), 0);
  EXPECT_EQ(GroupOf(escaped, "a0.weight"), std::nullopt);
  EXPECT_EQ(GroupOf(escaped, "b*.weight"), 0);
  EXPECT_EQ(GroupOf(escaped, "bc.weight"), std::nullopt);
}

TEST(OptimizerGroupsTest, AGroupHasItsOwnNumbersAndTheRestOfTheOptimizer) {
  EXPECT_EQ(First("sgd { rate: 0.5 } clip_value: 2 group { tensors: 'a' rate: 0.25 }"),
            Parse("sgd { rate: 0.25 } clip_value: 2").ShortDebugString());
  EXPECT_EQ(First("sgd { rate: 0.5 } group { tensors: 'a' rate_factor: 0.5 weight_decay: 3 }"),
            Parse("sgd { rate: 0.25 } weight_decay: 3").ShortDebugString());
  EXPECT_EQ(First("sgd { rate: 0.5 } weight_decay: 1 group { tensors: 'a' weight_decay: 0 }"),
            Parse("sgd { rate: 0.5 } weight_decay: 0").ShortDebugString());
  // Kinds that decay by themselves.
  EXPECT_EQ(First("adam_w { rate: 1 } group { tensors: 'a' weight_decay: 0.5 beta1: 0.5 beta2: "
                  "0.75 epsilon: 1e-3 }"),
            Parse("adam_w { rate: 1 beta1: 0.5 beta2: 0.75 epsilon: 1e-3 weight_decay: 0.5 }")
                .ShortDebugString());
  EXPECT_EQ(First("lion { rate: 1 weight_decay: 1 } group { tensors: 'a' weight_decay: 0.5 }"),
            Parse("lion { rate: 1 weight_decay: 0.5 }").ShortDebugString());
  EXPECT_EQ(First("nesterov { rate: 1 momentum: 0.9 period: 3 } group { tensors: 'a' momentum: "
                  "0.5 }"),
            Parse("nesterov { rate: 1 momentum: 0.5 period: 3 }").ShortDebugString());
}

TEST(OptimizerGroupsTest, WhatAGroupCannotHave) {
  const auto complaint = [](const std::string& kind, const std::string& group) {
    const Optimizer optimizer = Parse(kind + " group { " + group + " }");
    const auto problem = GroupProblem(optimizer, optimizer.group(0));
    EXPECT_EQ(CheckGroups(optimizer).ok(), !problem.has_value()) << group;
    return problem.has_value() ? std::string(problem->field) + ": " + problem->message : "";
  };
  EXPECT_EQ(complaint("sgd { rate: 1 }", "rate: 2"), "tensors: the group names no tensors");
  EXPECT_EQ(complaint("sgd { rate: 1 }", "tensors: 'a'"),
            "tensors: the group has nothing of its own");
  EXPECT_EQ(complaint("sgd { rate: 1 }", "tensors: 'a' rate: 2 frozen: true"),
            "rate: means nothing with frozen: nothing moves");
  EXPECT_EQ(complaint("sgd { rate: 1 }", "tensors: 'a' rate: 2 rate_factor: 2"),
            "rate_factor: stands in place of rate");
  EXPECT_EQ(complaint("sgd { rate: 1 }", "tensors: 'a' beta1: 0.5"), "beta1: sgd has no beta1");
  EXPECT_EQ(complaint("adam { rate: 1 }", "tensors: 'a' momentum: 0.5"),
            "momentum: adam has no momentum");
  // Its state has a slot more with a momentum than without.
  EXPECT_THAT(complaint("rms_prop { rate: 1 momentum: 0.9 }", "tensors: 'a' momentum: 0"),
              HasSubstr("rms_prop keeps as much state"));
  EXPECT_EQ(complaint("rms_prop { rate: 1 momentum: 0.9 }", "tensors: 'a' momentum: 0.5"), "");
  EXPECT_EQ(complaint("sgd { rate: 1 }", "tensors: 'a' frozen: true"), "");
  EXPECT_EQ(complaint("sgd { rate: 1 }", "tensors: 'a' weight_decay: 0"), "");
}

TEST(OptimizerGroupsTest, ShardsRefuseWhatNoFileCouldSay) {
  EXPECT_THAT(CheckGroups(Parse("sgd { rate: 1 } group { tensors: 'a' rate: -1 }")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("optimizer.group[0]")));
  Optimizer many = Parse("sgd { rate: 1 }");
  for (int i = 0; i <= kMaxOptimizerGroups; ++i) {
    EXPECT_OK(CheckGroups(many));
    OptimizerGroup* const group = many.add_group();
    group->add_tensors("a");
    group->set_frozen(true);
  }
  EXPECT_THAT(CheckGroups(many), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65")));
}

TEST(OptimizerGroupsTest, APatternThatDecidesNothingIsFound) {
  Model model;
  model.add_input_shape(4);
  model.add_layer()->mutable_dense()->set_units(4);
  model.add_layer()->mutable_dense()->set_units(2);
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(model));
  const Optimizer optimizer = Parse(
      "sgd { rate: 1 } group { tensors: '*bias' frozen: true } group { tensors: '*/weight' "
      "tensors: "
      "'dense1/bias' frozen: true } group { tensors: 'conv*' frozen: true }");
  EXPECT_FALSE(FindIdlePattern(optimizer, 0, layout).has_value());
  const auto taken = FindIdlePattern(optimizer, 1, layout);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->pattern, "dense1/bias");
  EXPECT_TRUE(taken->taken);
  const auto none = FindIdlePattern(optimizer, 2, layout);
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->pattern, "conv*");
  EXPECT_FALSE(none->taken);
}

}  // namespace
}  // namespace monsoon
