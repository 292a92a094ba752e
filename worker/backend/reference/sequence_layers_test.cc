// The layers of sequences: against finite differences, by hand, and against PyTorch.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/backend/reference/network.h"
#include "worker/nn/gradient_check.h"
#include "worker/nn/test_models.h"

namespace monsoon::reference {
namespace {

using ::monsoon::testing::MakeLayout;
using ::monsoon::testing::ParseModel;
using ::monsoon::testing::RandomBatch;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

ReferenceNetwork MakeNetwork(const Model& model, const ParameterLayout& layout) {
  absl::StatusOr<NetworkPlan> plan = NetworkPlan::Create(model, layout);
  CHECK_OK(plan.status());
  return ReferenceNetwork(*std::move(plan));
}

struct Case {
  std::string name;
  std::string model;
  uint32_t ids = 0;  // the samples are, below it
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class SequenceGradientTest : public ::testing::TestWithParam<Case> {};

TEST_P(SequenceGradientTest, EqualsFiniteDifferences) {
  const Model model = ParseModel(GetParam().model);
  const ParameterLayout layout = MakeLayout(model);
  ReferenceNetwork network = MakeNetwork(model, layout);
  const Batch batch = RandomBatch(layout, 3, 11, GetParam().ids);
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
  for (const TensorInfo& tensor : layout.tensors()) {
    double size = 0;
    for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      size += std::abs(gradient[i]);
    }
    // U h of the only step is U 0.
    const bool idle = tensor.name.ends_with("recurrent") && layout.input_shape()[0] == 1;
    EXPECT_TRUE(idle ? size == 0 : size > 1e-4) << tensor.name;
  }
}

// Behind a dense layer, so that what the layers pass back is judged.
std::string Steps(int steps, const std::string& layers) {
  return "input_shape: [ " + std::to_string(steps) + ", 4 ] layer { dense { units: 3 } } " + layers;
}

INSTANTIATE_TEST_SUITE_P(
    Layers, SequenceGradientTest,
    ::testing::Values(
        Case{"DenseGelu", Steps(5, "layer { gelu {} } layer { dense { units: 4 } }")},
        Case{"LayerNorm", Steps(7, "layer { layer_norm {} } layer { dense { units: 4 } }")},
        Case{"LayerNormNoShift", Steps(1,
                                       "layer { layer_norm { no_shift: true epsilon: 0.1 } } "
                                       "layer { dense { units: 4 } }")},
        Case{"LayerNormVector",
             "input_shape: 5 layer { dense { units: 3 } } layer { layer_norm {} } "
             "layer { dense { units: 4 } }"},
        Case{"Embedding", "input_shape: 7 layer { embedding { rows: 5 columns: 3 } }", 5},
        Case{"EmbeddingTied",
             "input_shape: 5 layer { name: \"e\" embedding { rows: 5 columns: 3 } } "
             "layer { tanh {} } layer { dense { tied_to: \"e\" } }",
             5},
        Case{"EmbeddingTiedTwice",
             "input_shape: 5 layer { name: \"e\" embedding { rows: 5 columns: 3 } } "
             "layer { dense { tied_to: \"e\" } } layer { dense { units: 3 } } "
             "layer { dense { tied_to: \"e\" no_bias: true } }",
             5},
        Case{"Position", Steps(5, "layer { position_embedding {} } layer { tanh {} }")},
        Case{"Lstm1", Steps(1, "layer { lstm { units: 5 } } layer { dense { units: 4 } }")},
        Case{"Lstm5", Steps(5, "layer { lstm { units: 5 } } layer { dense { units: 4 } }")},
        Case{"LstmSequences", Steps(7, "layer { lstm { units: 5 sequences: true } }")},
        Case{"LstmBidirectional",
             Steps(5,
                   "layer { lstm { units: 5 bidirectional: true } } layer { dense { units: 4 } "
                   "}")},
        Case{"LstmBidirectionalSequences",
             Steps(7, "layer { lstm { units: 5 bidirectional: true sequences: true } }")},
        Case{"Attention1", Steps(1, "layer { self_attention {} }")},
        Case{"Attention", Steps(5, "layer { self_attention { heads: 3 } }")},
        Case{"AttentionCausal", Steps(7, "layer { self_attention { causal: true } }")},
        Case{"AttentionCausalHeads",
             Steps(5, "layer { self_attention { causal: true heads: 3 no_bias: true } }")},
        Case{"AttentionWide",
             "input_shape: [ 5, 3 ] layer { dense { units: 6 } } "
             "layer { self_attention { heads: 3 causal: true } }"}),
    [](const auto& test) { return test.param.name; });

// The loss of one sample with outputs `a` and `b` of which `a` is right.
double LossOf(double a, double b) { return std::log1p(std::exp(b - a)); }

// Fills the tensors of `layout` with `values`, in its order.
std::vector<double> Fill(const ParameterLayout& layout,
                         const std::vector<std::vector<double>>& values) {
  std::vector<double> parameters(layout.size());
  CHECK_EQ(values.size(), layout.tensors().size());
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK_EQ(values[i].size(), layout.tensors()[i].size);
    std::copy(values[i].begin(), values[i].end(),
              parameters.begin() + static_cast<ptrdiff_t>(layout.tensors()[i].offset));
  }
  return parameters;
}

TEST(SequenceLayersTest, AnLstmEqualsHandComputedValues) {
  // One unit, two steps x = 1, 2; rows i, f, g, o. Then the outputs are h and 0.
  const Model model = ParseModel(
      "input_shape: [ 2, 1 ] layer { lstm { units: 1 } } layer { dense { units: 2 no_bias: true } "
      "}");
  const ParameterLayout layout = MakeLayout(model);
  ReferenceNetwork network = MakeNetwork(model, layout);
  const std::vector<double> parameters =
      Fill(layout, {{0.5, -1, 2, 1}, {1, 0.5, -1, 0.25}, {0.1, 0.2, 0.3, 0.4}, {1, 0}});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // Step 1: i takes 0.6, f -0.8, g 2.3, o 1.4, and h = c = 0 before it.
  const double c1 = sigmoid(0.6) * std::tanh(2.3);
  const double h1 = sigmoid(1.4) * std::tanh(c1);
  // Step 2: i takes 1.1 + h1, f -1.8 + h1 / 2, g 4.3 - h1, o 2.4 + h1 / 4.
  const double c2 = sigmoid(-1.8 + h1 / 2) * c1 + sigmoid(1.1 + h1) * std::tanh(4.3 - h1);
  const double h2 = sigmoid(2.4 + h1 / 4) * std::tanh(c2);
  EXPECT_NEAR(h2, 0.6769, 5e-5);
  Batch batch(1, 2);
  batch.examples = 1;
  batch.inputs.data()[0] = 1;
  batch.inputs.data()[1] = 2;
  batch.labels[0] = 0;
  ASSERT_OK_AND_ASSIGN(const StepResult result,
                       network.LossAndGradient(parameters, batch, {}, std::span<double>()));
  EXPECT_NEAR(result.loss_mean, LossOf(h2, 0), 1e-12);
}

TEST(SequenceLayersTest, AttentionEqualsHandComputedValues) {
  // Two steps x = (1, 0), (0, 2), one head of width 2: q = x, k = 2 x, v = 3 x with its features
  // the other way, and y = v mixed. Products q k: 2, 0 | 0, 8, through sqrt(2).
  const double p = 1 / (1 + std::exp(2 / std::sqrt(2.0)));  // what step 0 takes of step 1
  const double r = 1 / (1 + std::exp(8 / std::sqrt(2.0)));  // step 1 of step 0
  for (const bool causal : {false, true}) {
    SCOPED_TRACE(causal);
    const Model model = ParseModel("input_shape: [ 2, 2 ] layer { self_attention { causal: " +
                                   std::string(causal ? "true" : "false") + " no_bias: true } }");
    const ParameterLayout layout = MakeLayout(model);
    ReferenceNetwork network = MakeNetwork(model, layout);
    const std::vector<double> parameters =
        Fill(layout, {{1, 0, 0, 1, 2, 0, 0, 2, 0, 3, 3, 0}, {1, 0, 0, 1}});
    Batch batch(1, SampleFormat{.values = 4, .labels = 2});
    batch.examples = 1;
    const float x[] = {1, 0, 0, 2};
    std::copy_n(x, 4, batch.inputs.data());
    batch.labels = {1, 0};
    // Values are (0, 3) and (6, 0): outputs (6 p, 3 (1 - p)) and (6 (1 - r), 3 r).
    const double first = causal ? LossOf(3, 0) : LossOf(3 * (1 - p), 6 * p);
    ASSERT_OK_AND_ASSIGN(const StepResult result,
                         network.LossAndGradient(parameters, batch, {}, std::span<double>()));
    EXPECT_NEAR(result.loss_mean, (first + LossOf(6 * (1 - r), 3 * r)) / 2, 1e-12);
  }
}

TEST(SequenceLayersTest, WhatIsNoIdIsRefused) {
  const Model model = ParseModel(
      "input_shape: 3 layer { name: \"big\" input: \"input\" embedding { rows: 9 columns: 2 } } "
      "layer { name: \"small\" input: \"input\" embedding { rows: 4 columns: 2 } } "
      "layer { input: [ \"big\", \"small\" ] add {} }");
  const ParameterLayout layout = MakeLayout(model);
  ReferenceNetwork network = MakeNetwork(model, layout);
  const std::vector<float> parameters(layout.size());
  network.SetParameters(parameters);
  Batch batch = RandomBatch(layout, 2, 1, 4);
  ASSERT_OK(network.Evaluate(batch).status());
  for (const float id : {4.0f, -1.0f, 1.5f, std::nanf(""), INFINITY}) {
    batch.inputs.data()[5] = id;
    std::ostringstream text;
    text << "sample 1 of the batch has " << id << " at step 2;";
    EXPECT_THAT(network.Evaluate(batch).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text.str())));
    EXPECT_THAT(network.Evaluate(batch).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("4 rows")));
  }
}

// tests/interop/torch_sequence_layers.py, which writes the table, has these models and formulas.
constexpr size_t kExamples = 3;
constexpr std::pair<const char*, const char*> kTorchCases[] = {
    {"gpt", R"pb(
       input_shape: 5
       layer {
         name: "table"
         embedding { rows: 7 columns: 6 }
       }
       layer {
         name: "x0"
         position_embedding {}
       }
       layer { layer_norm {} }
       layer {
         name: "attention"
         self_attention { heads: 3 causal: true }
       }
       layer {
         name: "x1"
         input: [ "x0", "attention" ]
         add {}
       }
       layer { layer_norm { epsilon: 1e-3 } }
       layer { dense { units: 8 } }
       layer { gelu {} }
       layer {
         name: "back"
         dense { units: 6 }
       }
       layer {
         input: [ "x1", "back" ]
         add {}
       }
       layer { dense { tied_to: "table" } }
     )pb"},
    {"lstms", R"pb(
       input_shape: [ 5, 3 ]
       layer { lstm { units: 4 bidirectional: true sequences: true } }
       layer { lstm { units: 5 } }
       layer { dense { units: 4 } }
     )pb"},
    {"ends", R"pb(
       input_shape: [ 4, 6 ]
       layer { layer_norm { no_shift: true } }
       layer { self_attention { heads: 2 no_bias: true } }
       layer { lstm { units: 3 bidirectional: true } }
       layer { dense { units: 4 no_bias: true } }
     )pb"}};

// By case and tensor, or -1 for the loss.
std::map<std::pair<std::string, int>, std::vector<double>> ReadTable() {
  std::ifstream file("worker/backend/reference/testdata/torch_sequence_layers.txt");
  std::map<std::pair<std::string, int>, std::vector<double>> table;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, tensor;
    words >> name >> tensor;
    std::vector<double>& values = table[{name, tensor == "loss" ? -1 : std::atoi(tensor.c_str())}];
    for (double value = 0; words >> value;) {
      values.push_back(value);
    }
  }
  return table;
}

TEST(SequenceLayersTest, LossAndGradientsAreThoseOfTorch) {
  const auto table = ReadTable();
  for (const auto& [name, text] : kTorchCases) {
    SCOPED_TRACE(name);
    const Model model = ParseModel(text);
    const ParameterLayout layout = MakeLayout(model);
    ReferenceNetwork network = MakeNetwork(model, layout);
    std::vector<double> parameters(layout.size());
    for (size_t t = 0; t < layout.tensors().size(); ++t) {
      const TensorInfo& tensor = layout.tensors()[t];
      for (uint64_t i = 0; i < tensor.size; ++i) {
        const auto number = static_cast<int>((i * 7 + t * 13 + i * i) % 33);
        parameters[tensor.offset + i] = (number - 16) / 32.0;
      }
    }
    const bool ids = layout.input_shape().size() == 1;
    Batch batch = RandomBatch(layout, kExamples, 1, ids ? 7 : 0);
    for (size_t i = 0; i < kExamples * batch.values; ++i) {
      const auto number = static_cast<int>((i * 11 + i * i) % 31);
      batch.inputs.data()[i] =
          ids ? static_cast<float>((i * 5 + i * i) % 7) : static_cast<float>(number - 15) / 8.0f;
    }
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      batch.labels[i] = static_cast<uint32_t>((i * 3 + 1) % layout.output_units());
    }
    std::vector<double> gradient(layout.size());
    ASSERT_OK_AND_ASSIGN(const StepResult result,
                         network.LossAndGradient(parameters, batch, {}, gradient));
    ASSERT_EQ(table.count({name, -1}), 1u);
    EXPECT_NEAR(result.loss_mean, table.at({name, -1}).at(0), 1e-10);
    for (size_t t = 0; t < layout.tensors().size(); ++t) {
      const TensorInfo& tensor = layout.tensors()[t];
      SCOPED_TRACE(tensor.name);
      const auto expected = table.find({name, static_cast<int>(t)});
      ASSERT_NE(expected, table.end());
      ASSERT_EQ(expected->second.size(), tensor.size);
      for (uint64_t i = 0; i < tensor.size; ++i) {
        ASSERT_NEAR(gradient[tensor.offset + i], expected->second[i], 1e-10) << i;
      }
    }
  }
}

}  // namespace
}  // namespace monsoon::reference
