#include "worker/nn/buffer_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;

LayerPlan Takes(std::vector<ValueIndex> inputs, bool has_parameters = true) {
  LayerPlan layer;
  layer.inputs = std::move(inputs);
  if (has_parameters) {
    layer.tensors = {TensorSlot{0, 1}};
  }
  return layer;
}

TEST(BufferPlanTest, AChainNeedsTwoBuffers) {
  const BufferPlan plan = PlanBuffers({Takes({0}), Takes({1}), Takes({2}), Takes({3})});
  EXPECT_THAT(plan.value, ElementsAre(kNoBuffer, 0, 1, 0, 1));
  EXPECT_THAT(plan.gradient, ElementsAre(kNoBuffer, 1, 0, 1, 0));
  EXPECT_EQ(plan.value_buffers, 2);
  EXPECT_EQ(plan.gradient_buffers, 2);
}

TEST(BufferPlanTest, NobodyNeedsGradientsBeforeTheFirstParameters) {
  const BufferPlan plan = PlanBuffers({Takes({0}, false), Takes({1}, false), Takes({2})});
  EXPECT_THAT(plan.gradient, ElementsAre(kNoBuffer, kNoBuffer, kNoBuffer, 0));
}

// A residual block: value 1 goes to layer 1 and, past it, to layer 2.
TEST(BufferPlanTest, AValueOfTwoLayersStaysUntilBothHadItAndTheSecondGradientIsAdded) {
  const BufferPlan plan = PlanBuffers({Takes({0}), Takes({1}), Takes({2, 1}, false), Takes({3})});
  EXPECT_THAT(plan.value, ElementsAre(kNoBuffer, 0, 1, 2, 0));
  // Backwards layer 2 gives the first gradient of value 1, layer 1 adds its own.
  EXPECT_THAT(plan.adds[1], ElementsAre(true));
  EXPECT_THAT(plan.adds[2], ElementsAre(false, false));
  EXPECT_NE(plan.gradient[1], plan.gradient[2]);
  EXPECT_NE(plan.gradient[1], plan.gradient[3]);
}

TEST(BufferPlanTest, ALayerThatTakesOneValueTwiceAddsItsOwn) {
  const BufferPlan plan = PlanBuffers({Takes({0}), Takes({1, 1}, false)});
  EXPECT_THAT(plan.adds[1], ElementsAre(false, true));
}

TEST(BufferPlanTest, WhatIsInPlaceKeepsItsBufferForAll) {
  const BufferPlan plan = PlanBuffers({Takes({0}), Takes({1}, false), Takes({2}), Takes({3})},
                                      {false, true, false, false});
  EXPECT_THAT(plan.value, ElementsAre(kNoBuffer, 0, 0, 1, 0));
  EXPECT_THAT(plan.gradient, ElementsAre(kNoBuffer, 0, 0, 1, 0));
}

// Whatever the graph, no value is overwritten before its last reader had it.
TEST(BufferPlanTest, LiveValuesNeverShare) {
  std::vector<LayerPlan> layers;
  uint32_t state = 1;
  for (uint32_t i = 0; i < 60; ++i) {
    std::vector<ValueIndex> inputs;
    state = state * 1664525u + 1013904223u;
    inputs.push_back(i - (i == 0 ? 0 : (state >> 16) % std::min(i, 4u)));
    if ((state >> 24) % 3 == 0) {
      inputs.push_back((state >> 8) % (i + 1));
    }
    layers.push_back(Takes(inputs, i % 5 != 0));
  }
  const BufferPlan plan = PlanBuffers(layers);
  std::vector<int> holds(static_cast<size_t>(plan.value_buffers), 0);
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const ValueIndex input : layers[i].inputs) {
      if (input > 0) {
        EXPECT_EQ(holds[static_cast<size_t>(plan.value[input])], static_cast<int>(input));
        EXPECT_NE(plan.value[input], plan.value[i + 1]);
      }
    }
    holds[static_cast<size_t>(plan.value[i + 1])] = static_cast<int>(i + 1);
  }
  std::vector<int> gradient_of(static_cast<size_t>(plan.gradient_buffers), 0);
  gradient_of[static_cast<size_t>(plan.gradient.back())] = static_cast<int>(layers.size());
  for (size_t i = layers.size(); i-- > 0;) {
    if (plan.gradient[i + 1] == kNoBuffer) {
      continue;
    }
    for (size_t j = 0; j < layers[i].inputs.size(); ++j) {
      const ValueIndex input = layers[i].inputs[j];
      if (plan.gradient[input] == kNoBuffer) {
        continue;
      }
      int& of = gradient_of[static_cast<size_t>(plan.gradient[input])];
      if (plan.adds[i][j]) {
        EXPECT_EQ(of, static_cast<int>(input));
      }
      of = static_cast<int>(input);
    }
    // A value that no layer took has no gradient; all others have theirs still.
    if (CountUses(layers)[i + 1] > 0) {
      EXPECT_NE(plan.gradient[i + 1], kNoBuffer);
    }
  }
}

}  // namespace
}  // namespace monsoon
