// The layers of sequences against the reference in double, and against themselves.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
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
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

// Of the largest value of a tensor.
constexpr double kTolerance = 1e-5;

std::unique_ptr<Network> MakeNetwork(const Model& model, int threads = 1) {
  absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, MakeLayout(model));
  CHECK_OK(plan.status());
  absl::StatusOr<std::unique_ptr<Network>> made = CpuNetwork::Create(*std::move(plan), threads);
  CHECK_OK(made.status());
  return *std::move(made);
}

// Loss and gradient of a training step, which a hole in it would make NaN, and of an evaluation.
struct Results {
  StepResult step;
  std::vector<float> gradient;
  EvaluationResult evaluation;
};

Results RunAll(Network& network, const ParameterLayout& layout,
               const std::vector<float>& parameters, const Batch& batch) {
  Results results;
  network.SetParameters(parameters);
  results.gradient.assign(layout.size(), std::numeric_limits<float>::quiet_NaN());
  absl::StatusOr<StepResult> step = network.LossAndGradient(batch, {1, 2, 3}, results.gradient);
  CHECK_OK(step.status());
  results.step = *step;
  absl::StatusOr<EvaluationResult> evaluation = network.Evaluate(batch);
  CHECK_OK(evaluation.status());
  results.evaluation = *evaluation;
  return results;
}

void ExpectAlike(const ParameterLayout& layout, const Results& got, const Results& want) {
  EXPECT_NEAR(got.step.loss_mean, want.step.loss_mean, kTolerance * (1 + want.step.loss_mean));
  EXPECT_EQ(got.step.correct, want.step.correct);
  EXPECT_NEAR(got.evaluation.loss_sum, want.evaluation.loss_sum,
              kTolerance * (1 + want.evaluation.loss_sum));
  EXPECT_EQ(got.evaluation.correct, want.evaluation.correct);
  std::vector<bool> is_padding(layout.size(), true);
  for (const TensorInfo& tensor : layout.tensors()) {
    double largest = 1e-6;
    double difference = 0;
    for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      is_padding[i] = false;
      ASSERT_TRUE(std::isfinite(got.gradient[i])) << tensor.name << " at " << i - tensor.offset;
      largest = std::max(largest, std::abs(static_cast<double>(want.gradient[i])));
      difference =
          std::max(difference, std::abs(static_cast<double>(got.gradient[i]) - want.gradient[i]));
    }
    EXPECT_LT(difference / largest, kTolerance) << tensor.name;
  }
  for (size_t i = 0; i < layout.size(); ++i) {
    ASSERT_TRUE(!is_padding[i] || got.gradient[i] == 0) << i;
  }
}

void ExpectSameBits(const Results& one, const Results& other) {
  EXPECT_EQ(one.step.loss_mean, other.step.loss_mean);
  EXPECT_EQ(one.evaluation.loss_sum, other.evaluation.loss_sum);
  EXPECT_EQ(
      std::memcmp(one.gradient.data(), other.gradient.data(), one.gradient.size() * sizeof(float)),
      0);
}

struct Case {
  std::string name;
  std::string model;
  uint32_t ids = 0;  // the samples are, below it
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class CpuSequenceTest : public ::testing::TestWithParam<Case> {};

TEST_P(CpuSequenceTest, EqualsTheReferenceForAnyBatchAndThreads) {
  const Model model = ParseModel(GetParam().model);
  const ParameterLayout layout = MakeLayout(model);
  absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
  ASSERT_OK(plan.status());
  reference::ReferenceNetwork oracle(*std::move(plan));
  const std::vector<float> parameters = InitialParameters(layout, 7);
  std::vector<std::unique_ptr<Network>> networks;
  for (const int threads : {1, 2, 3}) {
    networks.push_back(MakeNetwork(model, threads));
  }
  for (const size_t examples : {1, 3, 13}) {
    SCOPED_TRACE(examples);
    const Batch batch = RandomBatch(layout, examples, examples, GetParam().ids);
    const Results want = RunAll(oracle, layout, parameters, batch);
    for (const std::unique_ptr<Network>& network : networks) {
      SCOPED_TRACE(network->Fingerprint());
      const Results got = RunAll(*network, layout, parameters, batch);
      ExpectAlike(layout, got, want);
      ExpectSameBits(RunAll(*network, layout, parameters, batch), got);
    }
  }
}

TEST_P(CpuSequenceTest, EqualsTheReferenceAtEachSimdLevel) {
  const Model model = ParseModel(GetParam().model);
  const ParameterLayout layout = MakeLayout(model);
  absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
  ASSERT_OK(plan.status());
  reference::ReferenceNetwork oracle(*std::move(plan));
  const std::vector<float> parameters = InitialParameters(layout, 8);
  const Batch batch = RandomBatch(layout, 11, 5, GetParam().ids);
  const Results want = RunAll(oracle, layout, parameters, batch);
  for (const SimdLevel level : SupportedSimdLevels()) {
    SCOPED_TRACE(SimdLevelName(level));
    const ScopedSimdLevel scoped(level);
    ExpectAlike(layout, RunAll(*MakeNetwork(model), layout, parameters, batch), want);
  }
}

// Behind a dense layer, so that what the layers pass back is judged.
std::string Steps(int steps, int features, const std::string& layers) {
  return "input_shape: [ " + std::to_string(steps) +
         ", 4 ] layer { dense { units: " + std::to_string(features) + " } } " + layers;
}

constexpr char kDense[] = " layer { dense { units: 4 } }";

INSTANTIATE_TEST_SUITE_P(
    Layers, CpuSequenceTest,
    ::testing::Values(
        Case{"DenseGelu", Steps(5, 19, "layer { gelu {} } layer { dense { units: 4 } }")},
        Case{"LayerNorm3", Steps(7, 3, "layer { layer_norm {} }") + kDense},
        Case{"LayerNorm16", Steps(1, 16, "layer { layer_norm { no_shift: true } }") + kDense},
        Case{"LayerNorm37", Steps(5, 37, "layer { layer_norm { epsilon: 0.1 } }") + kDense},
        Case{"LayerNormFirst", "input_shape: [ 3, 20 ] layer { layer_norm {} }"},
        Case{"LayerNormVector",
             "input_shape: 35 layer { layer_norm {} } layer { dense { units: 4 "
             "} }"},
        Case{"Embedding", "input_shape: 7 layer { embedding { rows: 5 columns: 3 } }", 5},
        Case{"EmbeddingTied",
             "input_shape: 5 layer { name: \"e\" embedding { rows: 50 columns: 17 } } "
             "layer { tanh {} } layer { dense { tied_to: \"e\" } }",
             50},
        Case{"EmbeddingTiedTwice",
             "input_shape: 5 layer { name: \"e\" embedding { rows: 9 columns: 3 } } "
             "layer { dense { tied_to: \"e\" } } layer { sigmoid {} } layer { dense { units: 3 } } "
             "layer { dense { tied_to: \"e\" no_bias: true } }",
             9},
        Case{"Position", Steps(5, 7, "layer { position_embedding {} } layer { tanh {} }") + kDense},
        Case{"PositionFirst", "input_shape: [ 5, 3 ] layer { position_embedding {} }"},
        Case{"Lstm1", Steps(1, 3, "layer { lstm { units: 5 } }") + kDense},
        Case{"Lstm5", Steps(5, 3, "layer { lstm { units: 5 } }") + kDense},
        Case{"Lstm32", Steps(7, 20, "layer { lstm { units: 32 } }") + kDense},
        Case{"LstmFirst", "input_shape: [ 5, 3 ] layer { lstm { units: 9 } }"},
        Case{"LstmSequences", Steps(7, 3, "layer { lstm { units: 5 sequences: true } }")},
        Case{"LstmBidirectional",
             Steps(5, 3, "layer { lstm { units: 17 bidirectional: true } }") + kDense},
        Case{"LstmBidirectional1",
             Steps(1, 3, "layer { lstm { units: 5 bidirectional: true } }") + kDense},
        Case{"LstmBidirectionalSequences",
             Steps(7, 3, "layer { lstm { units: 5 bidirectional: true sequences: true } }") +
                 "layer { lstm { units: 18 bidirectional: true sequences: true } }"},
        Case{"Attention1", Steps(1, 3, "layer { self_attention {} }")},
        Case{"Attention", Steps(5, 3, "layer { self_attention { heads: 3 } }")},
        Case{"AttentionCausal", Steps(7, 3, "layer { self_attention { causal: true } }")},
        Case{"AttentionNoBias", Steps(9, 6, "layer { self_attention { heads: 2 no_bias: true } }")},
        Case{"AttentionSixteens", Steps(16, 32,
                                        "layer { self_attention { heads: 2 causal: true } "
                                        "}")},
        Case{"AttentionLong",
             Steps(37, 57, "layer { self_attention { heads: 3 causal: true } }") + kDense},
        Case{"AttentionLongAll", Steps(37, 20, "layer { self_attention { heads: 1 } }") + kDense},
        Case{"AttentionTwice",
             Steps(21, 12,
                   "layer { self_attention { heads: 3 causal: true } } layer { tanh {} } "
                   "layer { self_attention { heads: 4 } }")}),
    [](const auto& test) { return test.param.name; });

TEST(CpuSequenceModelsTest, AGptBlockAndAClassifierEqualTheReference) {
  for (const auto& [model, ids] : {std::pair(testing::GptBlock(), testing::kGptIds),
                                   std::pair(testing::TextClassifier(), testing::kTextIds)}) {
    SCOPED_TRACE(model.name());
    const ParameterLayout layout = MakeLayout(model);
    absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
    ASSERT_OK(plan.status());
    reference::ReferenceNetwork oracle(*std::move(plan));
    const std::vector<float> parameters = InitialParameters(layout, 7);
    const Batch batch = RandomBatch(layout, 2, 1, ids);
    ExpectAlike(layout, RunAll(*MakeNetwork(model), layout, parameters, batch),
                RunAll(oracle, layout, parameters, batch));
  }
}

// Large values, where exponentials would overflow, and the ends of what the gates tell apart.
TEST(CpuSequenceModelsTest, LargeParametersEqualTheReference) {
  for (const char* const layers :
       {"layer { lstm { units: 18 sequences: true } }",
        "layer { self_attention { heads: 2 causal: true } }", "layer { layer_norm {} }"}) {
    SCOPED_TRACE(layers);
    const Model model = ParseModel(Steps(5, 20, layers) + kDense);
    const ParameterLayout layout = MakeLayout(model);
    absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
    ASSERT_OK(plan.status());
    reference::ReferenceNetwork oracle(*std::move(plan));
    std::vector<float> parameters = InitialParameters(layout, 7);
    for (float& parameter : parameters) {
      parameter *= 100;
    }
    const Batch batch = RandomBatch(layout, 3, 1);
    const std::unique_ptr<Network> network = MakeNetwork(model);
    const Results got = RunAll(*network, layout, parameters, batch);
    const Results want = RunAll(oracle, layout, parameters, batch);
    EXPECT_NEAR(got.step.loss_mean, want.step.loss_mean, 1e-4 * want.step.loss_mean);
    for (const float value : got.gradient) {
      ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(CpuSequenceModelsTest, NonFiniteParametersGiveANonFiniteLoss) {
  for (const char* const layers :
       {"layer { lstm { units: 5 } }", "layer { self_attention { no_bias: true } }",
        "layer { layer_norm {} }", "layer { position_embedding {} }"}) {
    SCOPED_TRACE(layers);
    const Model model = ParseModel(Steps(5, 4, layers) + kDense);
    const ParameterLayout layout = MakeLayout(model);
    for (const TensorInfo& tensor : layout.tensors()) {
      SCOPED_TRACE(tensor.name);
      std::vector<float> parameters = InitialParameters(layout, 7);
      parameters[tensor.offset] = std::numeric_limits<float>::quiet_NaN();
      const Results got =
          RunAll(*MakeNetwork(model), layout, parameters, RandomBatch(layout, 3, 1));
      EXPECT_FALSE(std::isfinite(got.step.loss_mean));
      EXPECT_FALSE(std::isfinite(got.evaluation.loss_sum));
    }
  }
}

TEST(CpuSequenceModelsTest, WhatIsNoIdIsRefused) {
  const Model model = ParseModel("input_shape: 3 layer { embedding { rows: 4 columns: 2 } }");
  const ParameterLayout layout = MakeLayout(model);
  const std::unique_ptr<Network> network = MakeNetwork(model);
  const std::vector<float> parameters = InitialParameters(layout, 1);
  network->SetParameters(parameters);
  std::vector<float> gradient(layout.size());
  Batch batch = RandomBatch(layout, 2, 1, 4);
  batch.inputs.data()[4] = 4;
  EXPECT_THAT(
      network->LossAndGradient(batch, {}, gradient).status(),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("sample 1 of the batch has 4 at step 1;")));
  batch.inputs.data()[4] = -0.5;
  EXPECT_THAT(network->Evaluate(batch).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("4 rows")));
  std::vector<float> probabilities(4);
  EXPECT_THAT(network->Predict(batch, {probabilities}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("has -0.5")));
}

}  // namespace
}  // namespace monsoon::cpu
