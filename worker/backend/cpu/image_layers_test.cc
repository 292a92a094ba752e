// Layers of images, and those that join branches, against the reference in double.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/simd/simd_level.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/backend/cpu/network.h"
#include "worker/backend/reference/network.h"
#include "worker/nn/test_models.h"

namespace monsoon::cpu {
namespace {

using ::monsoon::testing::InitialParameters;
using ::monsoon::testing::MakeLayout;
using ::monsoon::testing::ParseModel;
using ::monsoon::testing::RandomBatch;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = 1e-5;  // relative to the largest value of a tensor

// Both backends on one model.
class Pair {
 public:
  explicit Pair(const Model& model, int threads = 1) : layout(MakeLayout(model)) {
    absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
    CHECK_OK(plan.status());
    oracle = std::make_unique<reference::ReferenceNetwork>(*plan);
    absl::StatusOr<std::unique_ptr<Network>> made = CpuNetwork::Create(*plan, threads);
    CHECK_OK(made.status());
    cpu = *std::move(made);
    parameters = InitialParameters(layout, 7);
    for (const TensorInfo& tensor : layout.tensors()) {
      // Not what they start with, which is alike in all channels.
      for (uint64_t i = 0; i < tensor.size && (tensor.is_statistic || tensor.is_bias); ++i) {
        parameters[tensor.offset + i] += 0.1f * static_cast<float>(i % 7);
      }
    }
    cpu->SetParameters(parameters);
    oracle->SetParameters(parameters);
  }

  void ExpectSameGradient(const Batch& batch, const StepKey& key) {
    std::vector<float> got(layout.size(), kNan);
    std::vector<float> want(layout.size());
    ASSERT_OK_AND_ASSIGN(const StepResult result, cpu->LossAndGradient(batch, key, got));
    ASSERT_OK_AND_ASSIGN(const StepResult expected, oracle->LossAndGradient(batch, key, want));
    EXPECT_NEAR(result.loss_mean, expected.loss_mean, kTolerance * (1 + expected.loss_mean));
    for (const TensorInfo& tensor : layout.tensors()) {
      double largest = 1e-6, difference = 0;
      for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        ASSERT_TRUE(std::isfinite(got[i])) << tensor.name << " at " << i - tensor.offset;
        largest = std::max(largest, std::abs(static_cast<double>(want[i])));
        difference = std::max(difference, std::abs(static_cast<double>(got[i]) - want[i]));
      }
      EXPECT_LT(difference / largest, kTolerance) << tensor.name;
      EXPECT_TRUE(!tensor.is_statistic || !key.samples.empty() || largest > 1e-3) << tensor.name;
    }
    std::vector<float> again(layout.size(), kNan);
    ASSERT_OK(cpu->LossAndGradient(batch, key, again));
    EXPECT_EQ(std::memcmp(got.data(), again.data(), got.size() * sizeof(float)), 0);
  }

  void ExpectSameEvaluation(const Batch& batch) {
    ASSERT_OK_AND_ASSIGN(const EvaluationResult got, cpu->Evaluate(batch));
    ASSERT_OK_AND_ASSIGN(const EvaluationResult want, oracle->Evaluate(batch));
    EXPECT_NEAR(got.loss_sum, want.loss_sum, kTolerance * (1 + want.loss_sum));
    EXPECT_EQ(got.correct, want.correct);
  }

  ParameterLayout layout;
  std::vector<float> parameters;
  std::unique_ptr<Network> oracle;
  std::unique_ptr<Network> cpu;
};

struct Case {
  std::string name;
  std::string model;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class ImageLayersTest : public ::testing::TestWithParam<Case> {};

TEST_P(ImageLayersTest, EqualTheReferenceForAnyBatch) {
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(threads);
    Pair pair(ParseModel(GetParam().model), threads);
    for (const size_t examples : {2, 17, 33}) {
      SCOPED_TRACE(examples);
      const Batch batch = RandomBatch(pair.layout, examples, examples);
      pair.ExpectSameGradient(batch, StepKey{1, 2, examples, {}});
      std::vector<uint32_t> samples(examples);
      for (size_t n = 0; n < examples; ++n) {
        samples[n] = static_cast<uint32_t>(5 * n);
      }
      pair.ExpectSameGradient(batch, StepKey{1, 2, examples, samples});
      pair.ExpectSameEvaluation(batch);
    }
  }
}

std::string Image(const std::string& layers) {
  return "input_shape: [ 3, 11, 9 ] " + layers +
         " layer { flatten {} } layer { dense { units: 5 } }";
}

// Without biases, which normalisations would make the rounding of zero.
std::string After(int channels, const std::string& layers) {
  return Image("layer { conv2d { filters: " + std::to_string(channels) +
               " kernel: 3 no_bias: true } } " + layers);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, ImageLayersTest,
    ::testing::Values(
        Case{"LocalFirst", Image("layer { locally_connected2d { filters: 5 kernel: 3 } } "
                                 "layer { tanh {} }")},
        Case{"Local", After(7, "layer { locally_connected2d { filters: 3 kernel: 2 } }")},
        Case{"LocalStride",
             After(3, "layer { locally_connected2d { filters: 2 kernel: 3 stride: 2 } }")},
        Case{"LocalPadding",
             After(1,
                   "layer { locally_connected2d { filters: 9 kernel: 3 stride: 2 padding: 1 } "
                   "}")},
        Case{"LocalNoBias",
             After(2, "layer { locally_connected2d { filters: 1 kernel: 1 no_bias: true } }")},
        Case{"ContrastFirst", Image("layer { local_contrast_norm { window: 5 } } "
                                    "layer { conv2d { filters: 3 kernel: 3 } }")},
        Case{"Contrast", After(17, "layer { local_contrast_norm { window: 3 } }")},
        Case{"ContrastWide", After(1, "layer { local_contrast_norm {} }")},
        Case{"ContrastSubtractive",
             After(3, "layer { local_contrast_norm { window: 5 mode: SUBTRACTIVE } }")},
        Case{"ContrastDivisive",
             After(9, "layer { local_contrast_norm { window: 7 mode: DIVISIVE } }")},
        Case{"ContrastEpsilon",
             After(3, "layer { local_contrast_norm { window: 3 epsilon: 0.45 } }")},
        Case{"BatchNormFirst", Image("layer { batch_norm {} }")},
        Case{"BatchNorm", After(3, "layer { batch_norm {} } layer { tanh {} }")},
        Case{"BatchNormRelu", After(18, "layer { batch_norm {} } layer { relu {} }")},
        Case{"BatchNormWide",
             "input_shape: [ 1, 6, 5 ] layer { conv2d { filters: 70 kernel: 2 no_bias: true } } "
             "layer { batch_norm { momentum: 0.5 } } layer { relu {} } "
             "layer { global_average_pool {} } layer { dense { units: 3 } }"},
        Case{"BatchNormNoScale", After(1, "layer { batch_norm { no_scale: true epsilon: 0.2 } }")},
        Case{"BatchNormOfVectors",
             "input_shape: 5 layer { dense { units: 37 no_bias: true } } layer { batch_norm { "
             "epsilon: 0.1 } } "
             "layer { relu {} } layer { dense { units: 3 } }"},
        Case{"BatchNormWhoseValueIsTaken",
             After(4, R"(layer { name: "a" batch_norm {} } layer { name: "b" relu {} }
                         layer { input: "a" input: "b" add {} })")},
        Case{"GlobalPool",
             "input_shape: [ 3, 13, 9 ] layer { conv2d { filters: 5 kernel: 2 no_bias: true } } "
             "layer { global_average_pool {} }"},
        Case{"GlobalPoolFirst",
             "input_shape: [ 3, 5, 4 ] layer { global_average_pool {} } "
             "layer { dense { units: 4 } }"},
        Case{"GlobalPoolOfSteps",
             "input_shape: [ 70, 3 ] layer { dense { units: 4 } } "
             "layer { tanh {} } layer { global_average_pool {} }"},
        Case{"Rescale",
             After(3, "layer { rescale { scale: -1.5 offset: 0.3 } } layer { tanh {} }")},
        Case{"RescaleFirst", Image("layer { rescale { scale: 0.5 } }")},
        Case{"Augment", After(3, "layer { augment { shift: 2 flip: true crop: 5 } }")},
        Case{"AugmentShift", After(1, "layer { augment { shift: 6 } }")},
        Case{"AugmentFirst", Image("layer { augment { shift: 1 flip: true } } "
                                   "layer { conv2d { filters: 4 kernel: 2 } } layer { relu {} }")}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Branches, ImageLayersTest,
    ::testing::Values(
        Case{"Add", After(5, R"(layer { name: "a" conv2d { filters: 5 kernel: 3 padding: 1 } }
                                layer { relu {} }
                                layer { name: "b" conv2d { filters: 5 kernel: 3 padding: 1 } }
                                layer { input: "a" input: "b" add {} } layer { relu {} })")},
        Case{"Residual", After(4, R"(layer { name: "in" relu {} }
                         layer { conv2d { filters: 4 kernel: 3 padding: 1 no_bias: true } }
                         layer { batch_norm {} } layer { relu {} }
                         layer { conv2d { filters: 4 kernel: 3 padding: 1 no_bias: true } }
                         layer { name: "out" batch_norm {} }
                         layer { input: "in" input: "out" add {} } layer { relu {} })")},
        Case{"MultiplyThree", After(2, R"(layer { name: "a" tanh {} }
                         layer { name: "b" conv2d { filters: 2 kernel: 1 no_bias: true } }
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
        Case{"ConcatVectors",
             R"(input_shape: 6 layer { name: "a" dense { units: 4 } }
                layer { name: "b" input: "input" dense { units: 3 } }
                layer { input: "b" input: "a" input: "input" concat {} }
                layer { dense { units: 3 } })"},
        Case{"TheSampleAsABranch",
             Image(R"(layer { name: "a" conv2d { filters: 3 kernel: 3 padding: 1 } }
                      layer { name: "sum" input: "input" input: "a" add {} }
                      layer { name: "all" input: "sum" input: "input" concat {} })")},
        Case{"TheSampleAloneIsJoined",
             R"(input_shape: 4 layer { input: "input" input: "input" multiply {} }
                layer { dense { units: 3 } })"}),
    [](const auto& test) { return test.param.name; });

// Means far from zero, and enough values for several threads and blocks.
TEST(ImageLayersOfSizeTest, BatchNormOfManyValuesKeepsItsDigits) {
  const Model model = ParseModel(
      "input_shape: [ 3, 40, 40 ] layer { batch_norm {} } layer { relu {} } "
      "layer { global_average_pool {} } layer { dense { units: 3 } }");
  for (const SimdLevel level : SupportedSimdLevels()) {
    const ScopedSimdLevel scoped(level);
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << SimdLevelName(level) << ", threads " << threads);
      Pair pair(model, threads);
      Batch batch = RandomBatch(pair.layout, 37, 5);
      for (size_t i = 0; i < batch.examples * batch.values; ++i) {
        batch.inputs.data()[i] += 20.0f;
      }
      pair.ExpectSameGradient(batch, StepKey{1, 2, 3, {}});
    }
  }
}

TEST(ImageLayersOfSizeTest, ContrastAndLocalLayersEqualTheReferenceAtEachSimdLevel) {
  const Model model = ParseModel(
      "input_shape: [ 3, 24, 21 ] layer { locally_connected2d { filters: 8 kernel: 5 stride: 2 } } "
      "layer { local_contrast_norm {} } layer { locally_connected2d { filters: 4 kernel: 3 } } "
      "layer { relu {} } layer { flatten {} } layer { dense { units: 4 } }");
  for (const SimdLevel level : SupportedSimdLevels()) {
    const ScopedSimdLevel scoped(level);
    Pair pair(model, 2);
    pair.ExpectSameGradient(RandomBatch(pair.layout, 9, 5), StepKey{1, 2, 3, {}});
  }
}

// One sample's value of a feature has no variance: a step treats it as an evaluation does, and the
// running values stay. A sample of an image has many values.
TEST(ImageLayersOfSizeTest, ABatchOfOneSampleMovesNoRunningStatistics) {
  Pair vectors(
      ParseModel("input_shape: 4 layer { dense { units: 6 } } layer { batch_norm {} } "
                 "layer { relu {} } layer { dense { units: 3 } }"));
  const Batch one = RandomBatch(vectors.layout, 1, 5);
  std::vector<float> step(vectors.layout.size());
  std::vector<float> frozen(vectors.layout.size());
  const std::vector<uint32_t> sample = {3};
  for (Network* const network : {vectors.cpu.get(), vectors.oracle.get()}) {
    ASSERT_OK(network->LossAndGradient(one, StepKey{1, 2, 3, {}}, step));
    ASSERT_OK(network->LossAndGradient(one, StepKey{1, 2, 3, sample}, frozen));
    for (const TensorInfo& tensor : vectors.layout.tensors()) {
      for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        EXPECT_EQ(step[i], tensor.is_statistic ? 0.0f : frozen[i]) << tensor.name;
      }
    }
  }
  Pair images(
      ParseModel("input_shape: [ 2, 5, 5 ] layer { batch_norm {} } layer { flatten {} } "
                 "layer { dense { units: 3 } }"));
  images.ExpectSameGradient(RandomBatch(images.layout, 1, 5), StepKey{1, 2, 3, {}});
}

// What a step subtracts moves the running ones; an evaluation then takes them.
TEST(ImageLayersOfSizeTest, RunningStatisticsComeToThoseOfTheData) {
  Pair pair(
      ParseModel("input_shape: 2 layer { batch_norm { momentum: 0.2 } } "
                 "layer { dense { units: 2 } }"));
  std::vector<float> gradient(pair.layout.size());
  const Batch batch = RandomBatch(pair.layout, 50, 5);
  for (uint64_t step = 0; step < 100; ++step) {
    pair.cpu->SetParameters(pair.parameters);
    ASSERT_OK(pair.cpu->LossAndGradient(batch, StepKey{1, 0, step, {}}, gradient));
    for (const TensorInfo& tensor : pair.layout.tensors()) {
      for (uint64_t i = 0; i < tensor.size && tensor.is_statistic; ++i) {
        pair.parameters[tensor.offset + i] -= gradient[tensor.offset + i];
      }
    }
  }
  for (size_t c = 0; c < 2; ++c) {
    double mean = 0, variance = 0;
    for (size_t n = 0; n < 50; ++n) {
      mean += batch.inputs.data()[2 * n + c] / 50.0;
    }
    for (size_t n = 0; n < 50; ++n) {
      variance += std::pow(batch.inputs.data()[2 * n + c] - mean, 2) / 49;
    }
    EXPECT_NEAR(pair.parameters[pair.layout.tensors()[2].offset + c], mean, 1e-5);
    EXPECT_NEAR(pair.parameters[pair.layout.tensors()[3].offset + c], variance, 1e-5);
  }
}

TEST(ImageLayersOfSizeTest, NonFiniteValuesAreNotHidden) {
  for (const char* layer : {"batch_norm {}", "local_contrast_norm {}", "augment { flip: true }"}) {
    SCOPED_TRACE(layer);
    Pair pair(ParseModel(Image("layer { " + std::string(layer) +
                               " } layer { conv2d { filters: 2 "
                               "kernel: 2 } }")));
    Batch batch = RandomBatch(pair.layout, 4, 1);
    batch.inputs.data()[13] = kNan;
    std::vector<float> gradient(pair.layout.size());
    ASSERT_OK_AND_ASSIGN(const StepResult result, pair.cpu->LossAndGradient(batch, {}, gradient));
    EXPECT_FALSE(std::isfinite(result.loss_mean));
  }
}

}  // namespace
}  // namespace monsoon::cpu
