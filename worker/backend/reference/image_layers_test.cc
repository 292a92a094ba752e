// Layers of images, and those that join branches: hand-computed values, and gradients against
// finite differences.
#include <cmath>
#include <map>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/backend/reference/network.h"
#include "worker/nn/augmentation.h"
#include "worker/nn/gradient_check.h"
#include "worker/nn/test_models.h"

namespace monsoon::reference {
namespace {

using ::monsoon::testing::MakeLayout;
using ::monsoon::testing::ParseModel;
using ::monsoon::testing::RandomBatch;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

struct Case {
  std::string name;
  std::string model;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class ImageLayerGradientTest : public ::testing::TestWithParam<Case> {};

// In a step of Downpour SGD and in one of a batch job, whose statistics stand still.
TEST_P(ImageLayerGradientTest, EqualsFiniteDifferences) {
  const Model model = ParseModel(GetParam().model);
  const ParameterLayout layout = MakeLayout(model);
  ASSERT_OK_AND_ASSIGN(NetworkPlan plan, NetworkPlan::Create(model, layout));
  ReferenceNetwork network(plan);
  const Batch batch = RandomBatch(layout, 3, 11);
  const std::vector<uint32_t> samples = {5, 1, 8};
  const std::vector<float> initial = testing::InitialParameters(layout, 3);
  std::vector<double> parameters(initial.begin(), initial.end());
  std::vector<bool> is_statistic(layout.size(), false);
  for (const TensorInfo& tensor : layout.tensors()) {
    for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      is_statistic[i] = tensor.is_statistic;
      // Not what they start with, which is alike in all channels.
      const double moved = 0.1 * static_cast<double>(i % 7);
      parameters[i] += tensor.is_statistic || tensor.is_bias ? moved : 0.0;
    }
  }
  for (const bool frozen : {false, true}) {
    SCOPED_TRACE(frozen);
    const StepKey key{5, 1, 17,
                      frozen ? std::span<const uint32_t>(samples) : std::span<const uint32_t>()};
    std::vector<double> gradient(layout.size(), std::nan(""));
    ASSERT_OK(network.LossAndGradient(parameters, batch, key, gradient));
    const auto loss = [&](std::span<const double> at) {
      return network.LossAndGradient(at, batch, key, std::span<double>())->loss_mean;
    };
    const GradientError error =
        CheckGradient(loss, parameters, gradient, [&](size_t i) { return !is_statistic[i]; });
    EXPECT_LT(error.relative, 1e-6)
        << "at " << error.index << ": " << error.given << " instead of " << error.numeric;
    double size = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      size += is_statistic[i] ? 0.0 : std::abs(gradient[i]);
      ASSERT_TRUE(!is_statistic[i] || !frozen || gradient[i] == 0.0) << i;
    }
    EXPECT_GT(size, 1e-3);
  }
}

std::string Image(const std::string& layers) {
  return "input_shape: [ 2, 7, 6 ] " + layers +
         " layer { flatten {} } layer { dense { units: 4 } }";
}

// Behind so many channels.
std::string After(int channels, const std::string& layers) {
  return Image("layer { conv2d { filters: " + std::to_string(channels) + " kernel: 2 } } " +
               layers);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, ImageLayerGradientTest,
    ::testing::Values(
        Case{"Local", After(3, "layer { locally_connected2d { filters: 3 kernel: 3 } }")},
        Case{"LocalStride",
             After(3, "layer { locally_connected2d { filters: 2 kernel: 3 stride: 2 } }")},
        Case{"LocalPadding",
             After(1,
                   "layer { locally_connected2d { filters: 2 kernel: 3 stride: 3 padding: 2 } "
                   "}")},
        Case{"LocalNoBias",
             After(1, "layer { locally_connected2d { filters: 1 kernel: 1 no_bias: true } }")},
        Case{"Contrast", After(3, "layer { local_contrast_norm { window: 3 } }")},
        Case{"ContrastWide", After(1, "layer { local_contrast_norm {} }")},
        Case{"ContrastSubtractive",
             After(3, "layer { local_contrast_norm { window: 5 mode: SUBTRACTIVE } }")},
        Case{"ContrastDivisive",
             After(3, "layer { local_contrast_norm { window: 5 mode: DIVISIVE } }")},
        Case{"ContrastEpsilon",
             After(3, "layer { local_contrast_norm { window: 3 epsilon: 0.45 } }")},
        Case{"BatchNorm", After(3, "layer { batch_norm {} } layer { relu {} }")},
        Case{"BatchNormNoScale", After(1, "layer { batch_norm { no_scale: true epsilon: 0.2 } }")},
        Case{"BatchNormOfVectors",
             "input_shape: 5 layer { dense { units: 7 } } layer { batch_norm { epsilon: 0.1 } } "
             "layer { tanh {} } layer { dense { units: 3 } }"},
        Case{"GlobalPool",
             "input_shape: [ 2, 5, 4 ] layer { conv2d { filters: 3 kernel: 2 } } "
             "layer { global_average_pool {} } layer { dense { units: 4 } }"},
        Case{"GlobalPoolOfSteps",
             "input_shape: [ 5, 3 ] layer { dense { units: 4 } } "
             "layer { tanh {} } layer { global_average_pool {} }"},
        Case{"Rescale",
             After(3, "layer { rescale { scale: -1.5 offset: 0.3 } } layer { tanh {} }")},
        Case{"Augment", After(3, "layer { augment { shift: 2 flip: true crop: 4 } }")},
        Case{"AugmentFirst",
             Image("layer { augment { shift: 1 flip: true } } "
                   "layer { conv2d { filters: 2 kernel: 2 } } layer { batch_norm {} }")}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Branches, ImageLayerGradientTest,
    ::testing::Values(
        Case{"Add", After(3, R"(layer { name: "a" conv2d { filters: 3 kernel: 3 padding: 1 } }
                                layer { relu {} }
                                layer { name: "b" conv2d { filters: 3 kernel: 3 padding: 1 } }
                                layer { input: "a" input: "b" add {} })")},
        Case{"MultiplyThree", After(2, R"(layer { name: "a" tanh {} }
                         layer { name: "b" conv2d { filters: 2 kernel: 1 } }
                         layer { name: "c" input: "a" conv2d { filters: 2 kernel: 1 } }
                         layer { input: "a" input: "b" input: "c" multiply {} })")},
        Case{"TakenTwice", After(2, R"(layer { name: "a" tanh {} }
                                       layer { name: "square" input: "a" input: "a" multiply {} }
                                       layer { input: "square" input: "square" add {} })")},
        Case{"ConcatImages",
             After(2, R"(layer { name: "a" conv2d { filters: 1 kernel: 3 padding: 1 } }
                         layer { name: "b" input: "conv1" batch_norm {} }
                         layer { input: "a" input: "b" input: "conv1" concat {} })")},
        Case{"ConcatSequences",
             R"(input_shape: [ 5, 3 ] layer { name: "a" dense { units: 2 } }
                layer { name: "b" input: "input" dense { units: 4 } } layer { name: "c" tanh {} }
                layer { input: "a" input: "c" input: "a" concat {} }
                layer { flatten {} } layer { dense { units: 3 } })"},
        Case{"TheSampleAsABranch",
             Image(R"(layer { name: "a" conv2d { filters: 2 kernel: 3 padding: 1 } }
                      layer { name: "sum" input: "input" input: "a" add {} }
                      layer { name: "all" input: "sum" input: "input" concat {} })")},
        Case{"TheSampleAloneIsJoined",
             R"(input_shape: 4 layer { input: "input" input: "input" multiply {} }
                layer { dense { units: 3 } })"}),
    [](const auto& test) { return test.param.name; });

// A layer by itself.
std::vector<double> Forward(const LayerPlan& plan, size_t examples, const StepKey* key,
                            const std::vector<double>& parameters, const std::vector<double>& in) {
  std::vector<double> out(examples * plan.output.size());
  MakeLayer(plan)->Forward(Pass{examples, key, parameters}, in, out);
  return out;
}

Extent ImageOf(uint64_t channels, uint64_t height, uint64_t width) {
  return {.channels = channels, .height = height, .width = width, .is_image = true};
}

TEST(ImageLayerTest, EachPixelHasFiltersOfItsOwn) {
  LayerPlan plan;
  plan.kind = LayerKind::kLocallyConnected2d;
  plan.window = 2;
  plan.input = ImageOf(1, 2, 3);
  plan.output = ImageOf(1, 1, 2);
  plan.weight = {0, 8};
  plan.bias = {8, 2};
  // 1*1 + 2*2 + 3*4 + 4*5 + 10 and 5*2 + 6*3 + 7*5 + 8*6 + 20.
  EXPECT_THAT(Forward(plan, 1, nullptr, {1, 2, 3, 4, 5, 6, 7, 8, 10, 20}, {1, 2, 3, 4, 5, 6}),
              ElementsAre(47, 131));
}

// Two pixels, and a window of 3 with deviation 3/4: the neighbour counts g = e^(-8/9).
TEST(ImageLayerTest, ContrastEqualsHandComputedValues) {
  LayerPlan plan;
  plan.kind = LayerKind::kLocalContrastNorm;
  plan.window = 3;
  plan.epsilon = 1e-4;
  plan.input = plan.output = ImageOf(1, 1, 2);
  const double g = std::exp(-8.0 / 9);
  plan.subtractive = true;
  // Means (1 + 3 g) / (1 + g) and (3 + g) / (1 + g).
  const double v = 2 * g / (1 + g);
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, {1, 3}),
              Pointwise(DoubleNear(1e-12), std::vector<double>{-v, v}));
  // Both deviations are v.
  plan.divisive = true;
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, {1, 3}),
              Pointwise(DoubleNear(1e-12), std::vector<double>{-1, 1}));
  plan.epsilon = 4;
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, {1, 3}),
              Pointwise(DoubleNear(1e-12), std::vector<double>{-v / 4, v / 4}));
  // The first pixel's deviation is below the mean.
  plan.epsilon = 1e-4;
  plan.subtractive = false;
  const double s0 = std::sqrt((1 + 9 * g) / (1 + g)), s1 = std::sqrt((9 + g) / (1 + g));
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, {1, 3}),
              Pointwise(DoubleNear(1e-12), std::vector<double>{2 / (s0 + s1), 3 / s1}));
}

TEST(ImageLayerTest, ContrastCountsAllChannels) {
  LayerPlan plan;
  plan.kind = LayerKind::kLocalContrastNorm;
  plan.window = 9;
  plan.epsilon = 1e-4;
  plan.subtractive = plan.divisive = true;
  plan.input = plan.output = ImageOf(2, 1, 1);
  // Mean 3, deviation 2.
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, {1, 5}), ElementsAre(-1, 1));
}

TEST(ImageLayerTest, BatchNormEqualsHandComputedValues) {
  LayerPlan plan;
  plan.kind = LayerKind::kBatchNorm;
  plan.epsilon = 0.5;
  plan.momentum = 0.1;
  plan.input = plan.output = Extent{.channels = 1};
  plan.weight = {0, 1};
  plan.bias = {1, 1};
  plan.tensors = {plan.weight, plan.bias, {2, 1}, {3, 1}};
  const std::vector<double> parameters = {3, 1, 1, 3.5};
  const std::vector<double> in = {1, 2, 3, 6};  // mean 3, variance 14 / 4
  const StepKey step;
  EXPECT_EQ(Forward(plan, 4, &step, parameters, in), (std::vector<double>{-2, -0.5, 1, 5.5}));
  const std::vector<double> by_running = {1, 2.5, 4, 8.5};
  EXPECT_EQ(Forward(plan, 4, nullptr, parameters, in), by_running);
  const std::vector<uint32_t> samples = {0, 1, 2, 3};
  const StepKey of_batch_job{0, 0, 0, samples};
  EXPECT_EQ(Forward(plan, 4, &of_batch_job, parameters, in), by_running);

  // 0.1 of the way to 3 and 14 / 3, once it is subtracted.
  std::vector<double> gradient(4), in_diff(4);
  const auto layer = MakeLayer(plan);
  layer->Backward(Pass{4, &step, parameters}, in, {}, std::vector<double>{1, 0, 0, 0}, in_diff,
                  gradient);
  EXPECT_THAT(gradient, Pointwise(DoubleNear(1e-12),
                                  std::vector<double>{-1, 1, -0.2, 0.1 * (3.5 - 14.0 / 3)}));
  // One value has no variance: the running ones stand in for it, and stay.
  EXPECT_EQ(Forward(plan, 1, &step, parameters, {7}), Forward(plan, 1, nullptr, parameters, {7}));
  gradient.assign(4, 0);
  layer->Backward(Pass{1, &step, parameters}, std::vector<double>{7}, {}, std::vector<double>{1},
                  std::span(in_diff).first(1), gradient);
  EXPECT_EQ(gradient[2], 0.0);
  EXPECT_EQ(gradient[3], 0.0);
  EXPECT_NEAR(gradient[0], 3.0, 1e-12);  // (7 - 1) / sqrt(3.5 + 0.5)
  EXPECT_NEAR(in_diff[0], 1.5, 1e-12);   // scale 3 / 2
}

TEST(ImageLayerTest, GlobalPoolIsTheMean) {
  LayerPlan plan;
  plan.kind = LayerKind::kGlobalAveragePool;
  plan.input = ImageOf(2, 1, 2);
  plan.output = Extent{.channels = 2};
  EXPECT_THAT(Forward(plan, 2, nullptr, {}, {1, 2, 3, 5, 0, 8, 1, 1}), ElementsAre(1.5, 4, 4, 1));
  plan.input = Extent{.channels = 2, .steps = 4};
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, {1, 2, 3, 5, 0, 8, 2, 1}), ElementsAre(1.5, 4));
}

TEST(ImageLayerTest, RescaleEqualsHandComputedValues) {
  LayerPlan plan;
  plan.kind = LayerKind::kRescale;
  plan.scale = 0.5;
  plan.offset = -1;
  plan.input = plan.output = Extent{.channels = 2};
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, {4, 1}), ElementsAre(1, -0.5));
}

// A shifted, mirrored piece of the image, as it was drawn.
TEST(ImageLayerTest, AugmentCutsOutWhatWasDrawn) {
  LayerPlan plan;
  plan.kind = LayerKind::kAugment;
  plan.shift = 2;
  plan.flip = true;
  plan.crop = 2;
  plan.input = ImageOf(1, 3, 4);
  plan.output = ImageOf(1, 2, 2);
  std::vector<double> in(12);
  std::iota(in.begin(), in.end(), 1);
  EXPECT_THAT(Forward(plan, 1, nullptr, {}, in), ElementsAre(2, 3, 6, 7));
  const auto at = [&](int64_t y, int64_t x) {
    return y < 0 || y >= 3 || x < 0 || x >= 4 ? 0.0 : in[static_cast<size_t>(y * 4 + x)];
  };
  std::map<bool, int> flips;
  for (uint64_t step = 0; step < 40; ++step) {
    const StepKey key{1, 0, step, {}};
    const Augmentation drawn = DrawAugmentation(plan, &key, 0);
    const int64_t left = drawn.column + (drawn.flip ? 1 : 0);
    const int64_t right = drawn.column + (drawn.flip ? 0 : 1);
    EXPECT_THAT(Forward(plan, 1, &key, {}, in),
                ElementsAre(at(drawn.row, left), at(drawn.row, right), at(drawn.row + 1, left),
                            at(drawn.row + 1, right)));
    ++flips[drawn.flip];
  }
  EXPECT_EQ(flips.size(), 2u);
}

}  // namespace
}  // namespace monsoon::reference
