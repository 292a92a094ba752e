#include "worker/backend/reference/network.h"

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"
#include "worker/nn/test_models.h"

namespace monsoon::reference {
namespace {

using ::monsoon::testing::MakeLayout;
using ::monsoon::testing::ParseModel;
using ::monsoon::testing::RandomBatch;

struct Case {
  std::string name;
  std::string model;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class LayerGradientTest : public ::testing::TestWithParam<Case> {};

// Parameters stand before and behind each layer, so that both the layer's own
// gradients and what it passes back are judged.
TEST_P(LayerGradientTest, EqualsFiniteDifferences) {
  const Model model = ParseModel(GetParam().model);
  const ParameterLayout layout = MakeLayout(model);
  ASSERT_OK_AND_ASSIGN(NetworkPlan plan, NetworkPlan::Create(model, layout));
  ReferenceNetwork network(plan);
  const Batch batch = RandomBatch(layout, 3, 11);
  const StepKey key{5, 1, 17};
  const std::vector<float> initial = testing::InitialParameters(layout, 3);
  const std::vector<double> parameters(initial.begin(), initial.end());
  std::vector<double> gradient(layout.size(), std::nan(""));
  ASSERT_OK(network.LossAndGradient(parameters, batch, key, gradient));

  const auto loss = [&](std::span<const double> at) {
    return network.LossAndGradient(at, batch, key, std::span<double>())->loss_mean;
  };
  const GradientError error =
      CheckGradient(loss, parameters, gradient, [](size_t) { return true; });
  EXPECT_LT(error.relative, 1e-6) << "at " << error.index << ": " << error.given << " instead of "
                                  << error.numeric;
  double size = 0;
  for (const double value : gradient) {
    size += std::abs(value);
  }
  EXPECT_GT(size, 1e-3);
}

std::string Chain(const std::string& layers) {
  return "input_shape: [ 2, 7, 6 ] layer { conv2d { filters: 3 kernel: 2 } } " + layers +
         " layer { flatten {} } layer { dense { units: 4 } }";
}

INSTANTIATE_TEST_SUITE_P(
    Layers, LayerGradientTest,
    ::testing::Values(
        Case{"Dense", "input_shape: 5 layer { dense { units: 4 } } layer { dense { units: 3 } }"},
        Case{"DenseNoBias", "input_shape: 5 layer { dense { units: 4 no_bias: true } }"},
        Case{"Conv2d", Chain("layer { conv2d { filters: 4 kernel: 3 } }")},
        Case{"Conv2dStride", Chain("layer { conv2d { filters: 2 kernel: 3 stride: 2 } }")},
        Case{"Conv2dPadding",
             Chain("layer { conv2d { filters: 2 kernel: 3 padding: 2 stride: 3 } }")},
        Case{"Conv2dNoBias", Chain("layer { conv2d { filters: 2 kernel: 1 no_bias: true } }")},
        Case{"AveragePool", Chain("layer { average_pool2d { window: 2 } }")},
        Case{"AveragePoolOverlap", Chain("layer { average_pool2d { window: 3 stride: 1 } }")},
        Case{"MaxPool", Chain("layer { max_pool2d { window: 2 } }")},
        Case{"MaxPoolOverlap", Chain("layer { max_pool2d { window: 3 stride: 2 } }")},
        Case{"Relu", Chain("layer { relu {} }")}, Case{"Sigmoid", Chain("layer { sigmoid {} }")},
        Case{"Tanh", Chain("layer { tanh {} }")},
        Case{"Dropout", Chain("layer { dropout { rate: 0.3 } }")},
        Case{"Flatten", Chain("layer { flatten {} } layer { tanh {} }")}),
    [](const auto& test) { return test.param.name; });

TEST(ReferenceNetworkTest, ConvolutionEqualsHandComputedValues) {
  // One 3x3 image, one 2x2 filter: 1*1 + 2*2 + 3*4 + 4*5 = 37, plus bias 1.
  const Model model = ParseModel(R"pb(
    input_shape: [ 1, 3, 3 ]
    layer { conv2d { filters: 1 kernel: 2 } }
    layer { flatten {} }
  )pb");
  const ParameterLayout layout = MakeLayout(model);
  ASSERT_OK_AND_ASSIGN(NetworkPlan plan, NetworkPlan::Create(model, layout));
  ReferenceNetwork network(plan);
  std::vector<double> parameters(layout.size());
  for (int i = 0; i < 4; ++i) {
    parameters[layout.tensors()[0].offset + i] = i + 1;
  }
  parameters[layout.tensors()[1].offset] = 1;
  Batch batch(1, 9);
  batch.examples = 1;
  for (int i = 0; i < 9; ++i) {
    batch.inputs.data()[i] = static_cast<float>(i + 1);
  }
  // Outputs 38, 48, 68, 78: the loss is log of the sum of exponentials - 68.
  batch.labels[0] = 2;
  ASSERT_OK_AND_ASSIGN(const StepResult result,
                       network.LossAndGradient(parameters, batch, {}, std::span<double>()));
  EXPECT_NEAR(result.loss_mean, 10 + std::log1p(std::exp(-10) + std::exp(-30) + std::exp(-40)),
              1e-12);
  EXPECT_EQ(result.correct, 0u);
}

TEST(ReferenceNetworkTest, EvaluationDropsNothing) {
  const Model with =
      ParseModel("input_shape: 6 layer { dropout { rate: 0.5 } } layer { dense { units: 3 } }");
  const Model without = ParseModel("input_shape: 6 layer { dense { units: 3 } }");
  const ParameterLayout layout = MakeLayout(with);
  const std::vector<float> parameters = testing::InitialParameters(layout, 3);
  const Batch batch = RandomBatch(layout, 5, 1);
  double loss[2];
  int i = 0;
  for (const Model& model : {with, without}) {
    ASSERT_OK_AND_ASSIGN(NetworkPlan plan, NetworkPlan::Create(model, MakeLayout(model)));
    ReferenceNetwork network(plan);
    network.SetParameters(parameters);
    ASSERT_OK_AND_ASSIGN(const EvaluationResult result, network.Evaluate(batch));
    loss[i++] = result.loss_sum;
  }
  EXPECT_EQ(loss[0], loss[1]);
}

}  // namespace
}  // namespace monsoon::reference
