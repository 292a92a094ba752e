#include "worker/nn/network_plan.h"

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/nn/test_models.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST(NetworkPlanTest, ResolvesLeNet) {
  const Model model = testing::LeNet();
  const ParameterLayout layout = testing::MakeLayout(model);
  EXPECT_EQ(layout.parameters(), 129'068u);
  ASSERT_OK_AND_ASSIGN(const NetworkPlan plan, NetworkPlan::Create(model, layout));
  ASSERT_EQ(plan.layers.size(), 10u);
  EXPECT_EQ(plan.input.size(), 784u);
  EXPECT_EQ(plan.classes, 10u);
  EXPECT_EQ(plan.layers[0].kind, LayerKind::kConv2d);
  EXPECT_EQ(plan.layers[0].stride, 1u);
  EXPECT_EQ(plan.layers[2].stride, 2u);         // the window
  EXPECT_EQ(plan.layers[5].output.height, 4u);  // of 9, the last row cut off
  EXPECT_EQ(plan.layers[7].input.size(), 800u);
  EXPECT_EQ(plan.layers[7].weight.size, 800u * 128u);
  EXPECT_EQ(plan.layers[1].weight.size, 0u);
}

TEST(NetworkPlanTest, TensorsAndGapsCoverTheVectorOnce) {
  const Model model = testing::LeNet();
  const ParameterLayout layout = testing::MakeLayout(model);
  ASSERT_OK_AND_ASSIGN(const NetworkPlan plan, NetworkPlan::Create(model, layout));
  std::vector<int> covered(layout.size());
  for (const TensorInfo& tensor : layout.tensors()) {
    for (uint64_t i = 0; i < tensor.size; ++i) {
      ++covered[tensor.offset + i];
    }
  }
  for (const Slice& gap : plan.gaps) {
    for (uint64_t i = gap.begin; i < gap.end; ++i) {
      ++covered[i];
    }
  }
  EXPECT_EQ(covered, std::vector<int>(layout.size(), 1));
  EXPECT_FALSE(plan.gaps.empty());
}

TEST(NetworkPlanTest, IdsLieBelowTheSmallestEmbeddingsRows) {
  const Model model = testing::ParseModel(R"pb(
    input_shape: 3
    layer {
      name: "a"
      input: "input"
      embedding { rows: 9 columns: 2 }
    }
    layer {
      name: "b"
      input: "input"
      embedding { rows: 5 columns: 2 }
    }
    layer {
      name: "c"
      input: "input"
      embedding { rows: 7 columns: 2 }
    }
    layer {
      input: [ "a", "b", "c" ]
      add {}
    }
  )pb");
  ASSERT_OK_AND_ASSIGN(const NetworkPlan plan,
                       NetworkPlan::Create(model, testing::MakeLayout(model)));
  EXPECT_EQ(plan.id_limit, 5u);
  ASSERT_OK_AND_ASSIGN(const NetworkPlan none,
                       NetworkPlan::Create(testing::Mlp(), testing::MakeLayout(testing::Mlp())));
  EXPECT_EQ(none.id_limit, 0u);
}

TEST(NetworkPlanTest, NoLayoutHasADropoutRateOfOne) {
  const Model model = testing::ParseModel(R"pb(
    input_shape: 4
    layer { dropout { rate: 1.0 } }
    layer { dense { units: 2 } }
  )pb");
  EXPECT_THAT(ParameterLayout::Create(model).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dropout1")));
}

}  // namespace
}  // namespace monsoon
