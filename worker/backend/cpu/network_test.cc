// The oneDNN backend against the reference in double, and against itself.
#include "worker/backend/cpu/network.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/simd/simd_level.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
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

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

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
  }

  // Largest difference relative to the largest value of the tensor it is in.
  void ExpectSameGradient(const Batch& batch, const StepKey& key, double tolerance) {
    std::vector<float> got(layout.size(), kNan);
    std::vector<float> want(layout.size());
    std::vector<float> early(layout.size(), kNan);  // each float as it was when told to be final
    size_t final_from = layout.size();
    cpu->TellReady([&](size_t from) {
      ASSERT_LE(from, final_from);
      std::copy(got.data() + from, got.data() + final_from, early.data() + from);
      final_from = from;
    });
    ASSERT_OK_AND_ASSIGN(const StepResult result, cpu->LossAndGradient(batch, key, got));
    cpu->TellReady(nullptr);
    EXPECT_EQ(final_from, 0u);
    EXPECT_EQ(std::memcmp(early.data(), got.data(), got.size() * sizeof(float)), 0);
    ASSERT_OK_AND_ASSIGN(const StepResult expected, oracle->LossAndGradient(batch, key, want));
    EXPECT_NEAR(result.loss_mean, expected.loss_mean, tolerance * (1 + expected.loss_mean));
    EXPECT_EQ(result.correct, expected.correct);
    EXPECT_EQ(result.examples, batch.examples);
    for (const TensorInfo& tensor : layout.tensors()) {
      double largest = 1e-6;
      double difference = 0;
      for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        ASSERT_TRUE(std::isfinite(got[i])) << tensor.name << " at " << i - tensor.offset;
        largest = std::max(largest, std::abs(static_cast<double>(want[i])));
        difference = std::max(difference, std::abs(static_cast<double>(got[i]) - want[i]));
        want[i] = got[i];
      }
      EXPECT_LT(difference / largest, tolerance) << tensor.name;
    }
    // What is not a tensor is zero in both.
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
  }

  // And as likely as `loss_sum` says. Takes the labels away.
  void ExpectSamePredictions(Batch& batch, double loss_sum) {
    const size_t classes = layout.output_units();
    std::vector<float> got(batch.examples * classes, kNan);
    std::vector<float> want(got.size());
    ASSERT_OK(cpu->Predict(batch, {got}));
    ASSERT_OK(oracle->Predict(batch, {want}));
    double loss = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-5) << i;
      loss -= i % classes == batch.labels[i / classes] ? std::log(got[i]) : 0.0;
    }
    EXPECT_NEAR(loss, loss_sum, 1e-4 * (1 + loss_sum));
    std::fill(batch.labels.begin(), batch.labels.end(), UINT32_MAX);
    std::vector<float> again(got.size());
    ASSERT_OK(cpu->Predict(batch, {again}));
    EXPECT_EQ(again, got);
  }

  void SetParameters(const std::vector<float>& parameters) {
    cpu->SetParameters(parameters);
    oracle->SetParameters(parameters);
  }

  ParameterLayout layout;
  std::unique_ptr<Network> oracle;
  std::unique_ptr<Network> cpu;
};

struct Case {
  std::string name;
  std::string model;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class CpuNetworkTest : public ::testing::TestWithParam<Case> {};

TEST_P(CpuNetworkTest, EqualsTheReferenceForAnyBatch) {
  Pair pair(ParseModel(GetParam().model));
  const std::vector<float> parameters = InitialParameters(pair.layout, 7);
  pair.SetParameters(parameters);
  // 13 and 64 fill blocks of 16 samples well enough to be convolved so.
  for (const size_t examples : {1, 3, 13, 17, 64}) {
    SCOPED_TRACE(examples);
    Batch batch = RandomBatch(pair.layout, examples, examples);
    pair.ExpectSameGradient(batch, StepKey{1, 2, examples}, 3e-5);
    ASSERT_OK_AND_ASSIGN(const EvaluationResult got, pair.cpu->Evaluate(batch));
    ASSERT_OK_AND_ASSIGN(const EvaluationResult want, pair.oracle->Evaluate(batch));
    EXPECT_NEAR(got.loss_sum, want.loss_sum, 1e-5 * (1 + want.loss_sum));
    EXPECT_EQ(got.correct, want.correct);
    pair.ExpectSamePredictions(batch, want.loss_sum);
  }
}

std::string Image(const std::string& layers) {
  return "input_shape: [ 3, 11, 9 ] " + layers +
         " layer { flatten {} } layer { dense { units: 5 } }";
}

std::string AfterConv(const std::string& layers) {
  return Image("layer { conv2d { filters: 7 kernel: 3 } } " + layers);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, CpuNetworkTest,
    ::testing::Values(
        Case{"Dense1", "input_shape: 1 layer { dense { units: 2 } }"},
        Case{"DenseOdd",
             "input_shape: 17 layer { dense { units: 13 } } "
             "layer { relu {} } layer { dense { units: 3 } }"},
        Case{"DenseNoBias",
             "input_shape: 33 layer { dense { units: 31 no_bias: true } } "
             "layer { tanh {} } layer { dense { units: 3 no_bias: true } }"},
        Case{"DenseSigmoid",
             "input_shape: 16 layer { dense { units: 64 } } "
             "layer { sigmoid {} } layer { dense { units: 10 } }"},
        Case{"LeadingActivation", "input_shape: 16 layer { tanh {} } layer { dense { units: 4 } }"},
        Case{"LeadingDropout",
             "input_shape: 40 layer { dropout { rate: 0.2 } } layer { dense { units: 4 } }"},
        Case{"LeadingPool", Image("layer { max_pool2d { window: 2 } } "
                                  "layer { conv2d { filters: 4 kernel: 2 } }")},
        Case{"ConvLast",
             "input_shape: [ 1, 4, 4 ] layer { conv2d { filters: 3 kernel: 4 } } "
             "layer { flatten {} }"},
        Case{"ActivationLast", "input_shape: 9 layer { dense { units: 6 } } layer { sigmoid {} }"},
        Case{"Conv", AfterConv("")},
        Case{"ConvNoBias", Image("layer { conv2d { filters: 17 kernel: 2 no_bias: true } }")},
        Case{"ConvStride", AfterConv("layer { conv2d { filters: 5 kernel: 3 stride: 2 } }")},
        Case{"ConvPadding",
             AfterConv("layer { conv2d { filters: 18 kernel: 3 stride: 2 padding: 1 } }")},
        Case{"ConvManyInputChannels",
             "input_shape: [ 20, 5, 5 ] "
             "layer { conv2d { filters: 33 kernel: 3 } } "
             "layer { relu {} } layer { flatten {} } "
             "layer { dense { units: 5 } }"},
        Case{"ConvConv", AfterConv("layer { conv2d { filters: 11 kernel: 2 } }")},
        Case{"ConvLargeKernel",
             AfterConv("layer { relu {} } layer { conv2d { filters: 4 kernel: 6 } "
                       "} layer { relu {} }")},
        Case{"ConvSmallOutput",
             AfterConv("layer { conv2d { filters: 4 kernel: 7 no_bias: true } }")},
        Case{"ConvPoolConv",
             "input_shape: [ 2, 16, 19 ] layer { conv2d { filters: 6 kernel: 3 } } layer { relu {} "
             "} "
             "layer { average_pool2d { window: 2 } } layer { conv2d { filters: 13 kernel: 3 } } "
             "layer { relu {} } layer { average_pool2d { window: 3 } } layer { dropout { rate: 0.2 "
             "} } "
             "layer { flatten {} } layer { dense { units: 5 } }"},
        Case{"ConvTanhConv",
             AfterConv("layer { tanh {} } layer { conv2d { filters: 5 kernel: 2 } }")},
        Case{"ConvSigmoidConv",
             AfterConv("layer { sigmoid {} } layer { conv2d { filters: 5 kernel: 2 } }")},
        Case{"AveragePool", AfterConv("layer { relu {} } layer { average_pool2d { window: 2 } }")},
        Case{"AveragePoolRest", AfterConv("layer { average_pool2d { window: 4 } }")},
        // The largest that is accepted.
        Case{"ConvStrideOverAll",
             AfterConv("layer { conv2d { filters: 5 kernel: 3 stride: 16777216 } }")},
        Case{"MaxPoolStrideOverAll",
             AfterConv("layer { max_pool2d { window: 2 stride: 16777216 } }")},
        Case{"AveragePoolStrideOverAll",
             AfterConv("layer { average_pool2d { window: 2 stride: 16777216 } }")},
        Case{"AveragePoolOverlap", AfterConv("layer { average_pool2d { window: 3 stride: 1 } }")},
        Case{"AveragePoolSparse", AfterConv("layer { average_pool2d { window: 2 stride: 3 } }")},
        Case{"MaxPool", AfterConv("layer { max_pool2d { window: 2 } } layer { relu {} }")},
        Case{"MaxPoolRest", AfterConv("layer { max_pool2d { window: 4 } }")},
        Case{"MaxPoolOverlap", AfterConv("layer { max_pool2d { window: 3 stride: 2 } }")},
        Case{"PoolSigmoidConv", AfterConv("layer { average_pool2d { window: 2 } } layer { sigmoid "
                                          "{} } layer { conv2d { filters: 4 kernel: 2 } }")},
        Case{"DropoutAfterConv", AfterConv("layer { relu {} } layer { dropout { rate: 0.4 } } "
                                           "layer { conv2d { filters: 4 kernel: 2 } }")},
        Case{"DropoutAfterDense", AfterConv("layer { flatten {} } layer { dense { units: 20 } } "
                                            "layer { relu {} } layer { dropout { rate: 0.5 } }")},
        Case{"FlattenRelu", AfterConv("layer { flatten {} } layer { relu {} }")}),
    [](const auto& test) { return test.param.name; });

TEST(CpuNetworkModelsTest, LeNetEqualsTheReference) {
  Pair pair(testing::LeNet());
  const std::vector<float> parameters = InitialParameters(pair.layout, 1);
  pair.SetParameters(parameters);
  // With oneDNN's convolutions and with our own.
  for (const size_t examples : {5, 29}) {
    pair.ExpectSameGradient(RandomBatch(pair.layout, examples, 3), {}, 3e-5);
  }
}

TEST(CpuNetworkModelsTest, TellsOfEachLayerWhenItsGradientIsFinal) {
  Pair pair(testing::Mlp());
  const std::vector<float> parameters = InitialParameters(pair.layout, 1);
  pair.SetParameters(parameters);
  std::vector<float> gradient(pair.layout.size());
  std::vector<size_t> told;
  pair.cpu->TellReady([&](size_t from) { told.push_back(from); });
  ASSERT_OK(pair.cpu->LossAndGradient(RandomBatch(pair.layout, 4, 1), {}, gradient));
  const TensorInfo& bias = pair.layout.tensors()[1];
  EXPECT_EQ(told, (std::vector<size_t>{bias.offset + bias.size, 0}));
}

TEST(CpuNetworkModelsTest, MlpEqualsTheReferenceAtAFullAndATailBatch) {
  Pair pair(testing::Mlp());
  const std::vector<float> parameters = InitialParameters(pair.layout, 1);
  pair.SetParameters(parameters);
  for (const size_t examples : {64, 19, 64, 1}) {
    pair.ExpectSameGradient(RandomBatch(pair.layout, examples, examples), {}, 3e-5);
  }
}

TEST(CpuNetworkModelsTest, TenTrainingStepsFollowTheReference) {
  const Model model = ParseModel(
      "input_shape: [ 1, 12, 12 ] layer { conv2d { filters: 6 kernel: 3 } } layer { relu {} } "
      "layer { average_pool2d { window: 2 } } layer { flatten {} } layer { dense { units: 20 } } "
      "layer { relu {} } "
      "layer { dropout { rate: 0.2 } } layer { dense { units: 4 } }");
  Pair pair(model);
  std::vector<float> ours = InitialParameters(pair.layout, 1);
  std::vector<double> theirs(ours.begin(), ours.end());
  auto& oracle = static_cast<reference::ReferenceNetwork&>(*pair.oracle);
  std::vector<float> gradient(pair.layout.size());
  std::vector<double> precise(pair.layout.size());
  double first_loss = 0;
  for (uint64_t step = 0; step < 10; ++step) {
    const Batch batch = RandomBatch(pair.layout, 16, 5);
    pair.cpu->SetParameters(ours);
    ASSERT_OK_AND_ASSIGN(const StepResult got,
                         pair.cpu->LossAndGradient(batch, {3, 0, step}, gradient));
    ASSERT_OK_AND_ASSIGN(const StepResult want,
                         oracle.LossAndGradient(theirs, batch, {3, 0, step}, precise));
    EXPECT_NEAR(got.loss_mean, want.loss_mean, 1e-4) << "step " << step;
    for (size_t i = 0; i < ours.size(); ++i) {
      ours[i] -= 0.3f * gradient[i];
      theirs[i] -= 0.3 * precise[i];
    }
    first_loss = step == 0 ? got.loss_mean : first_loss;
    EXPECT_TRUE(step < 9 || got.loss_mean < 0.97 * first_loss);
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(ours[i], theirs[i], 1e-4) << i;
  }
}

TEST(CpuNetworkModelsTest, DropoutBySampleDoesNotDependOnTheBatch) {
  Pair pair(ParseModel(R"pb(
    input_shape: [ 2, 7, 6 ]
    layer { conv2d { filters: 5 kernel: 2 } }
    layer { dropout { rate: 0.4 } }
    layer { flatten {} }
    layer { dropout { rate: 0.2 } }
    layer { dense { units: 4 } }
  )pb"));
  const std::vector<float> parameters = InitialParameters(pair.layout, 7);
  pair.SetParameters(parameters);
  constexpr size_t kExamples = 6;
  const Batch all = RandomBatch(pair.layout, kExamples, 3);
  const std::vector<uint32_t> samples = {40, 2, 999, 3, 17, 8};
  pair.ExpectSameGradient(all, StepKey{1, 2, 3, samples}, 3e-5);
  for (Network* network : {pair.oracle.get(), pair.cpu.get()}) {
    std::vector<float> gradient(pair.layout.size());
    ASSERT_OK_AND_ASSIGN(const StepResult whole,
                         network->LossAndGradient(all, StepKey{1, 2, 3, samples}, gradient));
    double loss = 0;
    for (size_t first = 0; first < kExamples; first += 2) {
      Batch pair_of_samples(2, all.values);
      pair_of_samples.examples = 2;
      std::copy_n(all.inputs.data() + first * all.values, 2 * all.values,
                  pair_of_samples.inputs.data());
      std::copy_n(all.labels.begin() + first, 2, pair_of_samples.labels.begin());
      // By another worker, in another step.
      const StepKey key{1, 5, first, std::span(samples).subspan(first, 2)};
      ASSERT_OK_AND_ASSIGN(const StepResult part,
                           network->LossAndGradient(pair_of_samples, key, gradient));
      loss += part.loss_mean * 2;
    }
    EXPECT_NEAR(loss / kExamples, whole.loss_mean, 1e-5);
  }
}

TEST(CpuNetworkModelsTest, OneThreadGivesTheSameBitsAgain) {
  const Model model = testing::LeNet();
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    Pair pair(model);
    const std::vector<float> parameters = InitialParameters(pair.layout, 1);
    pair.cpu->SetParameters(parameters);
    const Batch batch = RandomBatch(pair.layout, 29, 3);
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<float> gradient(pair.layout.size(), kNan);
      ASSERT_OK(pair.cpu->LossAndGradient(batch, {}, gradient));
      if (first.empty()) {
        first = gradient;
      }
      EXPECT_EQ(std::memcmp(first.data(), gradient.data(), first.size() * sizeof(float)), 0);
    }
  }
}

TEST(CpuNetworkModelsTest, TwoThreadsEqualTheReference) {
  Pair pair(testing::LeNet(), 2);
  const std::vector<float> parameters = InitialParameters(pair.layout, 1);
  pair.SetParameters(parameters);
  pair.ExpectSameGradient(RandomBatch(pair.layout, 6, 3), {}, 3e-5);
}

TEST(CpuNetworkModelsTest, NewParametersAreSeenByAllBatchSizes) {
  Pair pair(testing::Mlp());
  const std::vector<float> one = InitialParameters(pair.layout, 1);
  const std::vector<float> two = InitialParameters(pair.layout, 2);
  const Batch full = RandomBatch(pair.layout, 8, 1);
  const Batch tail = RandomBatch(pair.layout, 3, 2);
  for (const std::vector<float>* parameters : {&one, &two, &one}) {
    pair.SetParameters(*parameters);
    pair.ExpectSameGradient(full, {}, 3e-5);
    pair.ExpectSameGradient(tail, {}, 3e-5);
  }
}

TEST(CpuNetworkModelsTest, ManyBatchSizesAreServed) {
  Pair pair(testing::Mlp());
  const std::vector<float> parameters = InitialParameters(pair.layout, 1);
  pair.SetParameters(parameters);
  for (size_t examples = 1; examples <= 20; ++examples) {
    pair.ExpectSameGradient(RandomBatch(pair.layout, examples, 1), {}, 3e-5);
  }
}

TEST(CpuNetworkModelsTest, RefusesBatchesThatDoNotFit) {
  Pair pair(testing::Mlp());
  const std::vector<float> parameters = InitialParameters(pair.layout, 1);
  pair.SetParameters(parameters);
  std::vector<float> gradient(pair.layout.size());
  Batch batch = RandomBatch(pair.layout, 4, 1);
  batch.labels[2] = 10;
  EXPECT_THAT(pair.cpu->LossAndGradient(batch, {}, gradient).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("label 10 of sample 2")));
  batch.examples = 0;
  EXPECT_THAT(pair.cpu->Evaluate(batch).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  Batch narrow(1, 3);
  narrow.examples = 1;
  EXPECT_THAT(pair.cpu->Evaluate(narrow).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 values")));
  std::vector<float> probabilities(10);
  EXPECT_THAT(pair.cpu->Predict(narrow, {probabilities}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 values")));
}

TEST(CpuNetworkModelsTest, NonFiniteParametersGiveANonFiniteLoss) {
  Pair pair(testing::Mlp());
  std::vector<float> parameters = InitialParameters(pair.layout, 1);
  parameters[pair.layout.tensors()[3].offset] = kNan;
  pair.SetParameters(parameters);
  std::vector<float> gradient(pair.layout.size());
  ASSERT_OK_AND_ASSIGN(const StepResult result,
                       pair.cpu->LossAndGradient(RandomBatch(pair.layout, 4, 1), {}, gradient));
  EXPECT_FALSE(std::isfinite(result.loss_mean));
}

// What a machine without AVX-512 computes with.
TEST(CpuNetworkModelsTest, EachSimdLevelEqualsTheReferenceAndHasItsFingerprint) {
  std::set<std::string> fingerprints;
  const std::vector<SimdLevel> levels = SupportedSimdLevels();
  for (const SimdLevel level : levels) {
    const ScopedSimdLevel scoped(level);
    Pair pair(ParseModel(
        "input_shape: [ 1, 12, 12 ] layer { conv2d { filters: 6 kernel: 3 } } layer { relu {} } "
        "layer { average_pool2d { window: 2 } } layer { flatten {} } layer { dense { units: 4 } "
        "}"));
    const std::vector<float> parameters = InitialParameters(pair.layout, 1);
    pair.SetParameters(parameters);
    pair.ExpectSameGradient(RandomBatch(pair.layout, 16, 3), {}, 3e-5);
    fingerprints.insert(pair.cpu->Fingerprint());
  }
  EXPECT_EQ(fingerprints.size(), levels.size());
}

// The convolutions of our own: their widths, kernels and filters leave tiles of each size.
constexpr char kConvolutions[] =
    "input_shape: [ 3, 15, 13 ] layer { conv2d { filters: 7 kernel: 4 } } layer { relu {} } "
    "layer { average_pool2d { window: 2 } } layer { conv2d { filters: 6 kernel: 3 } } "
    "layer { flatten {} } layer { dense { units: 4 } }";

TEST(CpuNetworkModelsTest, ThreadsShareConvolutionsAtEachSimdLevel) {
  for (const SimdLevel level : SupportedSimdLevels()) {
    const ScopedSimdLevel scoped(level);
    for (const int threads : {1, 2, 3, 4}) {
      SCOPED_TRACE(::testing::Message() << SimdLevelName(level) << ", threads " << threads);
      Pair pair(ParseModel(kConvolutions), threads);
      const std::vector<float> parameters = InitialParameters(pair.layout, 1);
      pair.SetParameters(parameters);
      for (const size_t examples : {16, 30, 48, 77}) {
        SCOPED_TRACE(examples);
        const Batch batch = RandomBatch(pair.layout, examples, 3);
        pair.ExpectSameGradient(batch, {}, 3e-5);
        std::vector<float> first(pair.layout.size()), again(pair.layout.size());
        ASSERT_OK(pair.cpu->LossAndGradient(batch, {}, first));
        for (int i = 0; i < 5; ++i) {
          ASSERT_OK(pair.cpu->LossAndGradient(batch, {}, again));
          ASSERT_EQ(again, first);
        }
      }
    }
  }
}

// Large enough to be shared, and sizes that threads and vectors do not divide.
TEST(CpuNetworkModelsTest, ThreadsShareDenseLayers) {
  const Model model = ParseModel(
      "input_shape: 301 layer { dense { units: 203 } } layer { relu {} } "
      "layer { dense { units: 205 no_bias: true } } layer { dense { units: 9 } }");
  for (const int threads : {1, 2, 3, 4}) {
    SCOPED_TRACE(threads);
    Pair pair(model, threads);
    const std::vector<float> parameters = InitialParameters(pair.layout, 1);
    pair.SetParameters(parameters);
    for (const size_t examples : {19, 133}) {
      SCOPED_TRACE(examples);
      const Batch batch = RandomBatch(pair.layout, examples, 3);
      pair.ExpectSameGradient(batch, {}, 1e-5);
      std::vector<float> first(pair.layout.size()), again(pair.layout.size());
      ASSERT_OK(pair.cpu->LossAndGradient(batch, {}, first));
      for (int i = 0; i < 5; ++i) {
        ASSERT_OK(pair.cpu->LossAndGradient(batch, {}, again));
        ASSERT_EQ(again, first);
      }
    }
  }
}

// Both have fused multiply-add; oneDNN's part is the same here.
TEST(CpuNetworkModelsTest, ConvolutionsUnderAvx2AndAvx512GiveTheSameBits) {
  std::vector<std::vector<float>> gradients;
  for (const SimdLevel level : SupportedSimdLevels()) {
    if (level == SimdLevel::kBaseline) {
      continue;
    }
    const ScopedSimdLevel scoped(level);
    Pair pair(ParseModel(kConvolutions));
    const std::vector<float> parameters = InitialParameters(pair.layout, 1);
    pair.SetParameters(parameters);
    gradients.emplace_back(pair.layout.size());
    ASSERT_OK(pair.cpu->LossAndGradient(RandomBatch(pair.layout, 48, 3), {}, gradients.back()));
    EXPECT_EQ(gradients.back(), gradients.front()) << SimdLevelName(level);
  }
}

// oneDNN's ReLU turns NaN into zero, so the loss may miss it.
TEST(CpuNetworkModelsTest, NonFiniteConvolutionsGiveANonFiniteGradient) {
  Pair pair(testing::LeNet());
  std::vector<float> parameters = InitialParameters(pair.layout, 1);
  parameters[pair.layout.tensors()[0].offset] = kNan;
  pair.SetParameters(parameters);
  std::vector<float> gradient(pair.layout.size());
  ASSERT_OK(pair.cpu->LossAndGradient(RandomBatch(pair.layout, 16, 1), {}, gradient));
  EXPECT_FALSE(std::ranges::all_of(gradient, [](float value) { return std::isfinite(value); }));
}

TEST(CpuNetworkModelsTest, TheFingerprintNamesWhatBitsDependOn) {
  Pair pair(testing::Mlp(), 2);
  EXPECT_THAT(pair.cpu->Fingerprint(), HasSubstr("cpu oneDNN"));
  EXPECT_THAT(pair.cpu->Fingerprint(), HasSubstr("threads 2"));
}

}  // namespace
}  // namespace monsoon::cpu
