// The CUDA backend through the factory, as a worker has it: against the
// reference backend, and its errors as Status.
#include "worker/nn/network.h"

#include <cmath>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/device.h"
#include "worker/nn/batch.h"
#include "worker/nn/step_key.h"
#include "worker/nn/test_models.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

class CudaNetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto backend = ChooseBackend(CUDA, 0); !backend.ok()) {
      GTEST_SKIP() << "needs a GPU: " << std::string(backend.status().message());
    }
  }
};

TEST_F(CudaNetworkTest, EqualsTheReferenceOnAChunkOfLeNet) {
  const Model model = testing::LeNet();
  const ParameterLayout layout = testing::MakeLayout(model);
  const std::vector<float> parameters = testing::InitialParameters(layout, 1);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> cuda,
                       CreateNetwork(BackendKind::kCuda, model, layout, {}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> oracle,
                       CreateNetwork(BackendKind::kReference, model, layout, {}));
  cuda->SetParameters(parameters);
  oracle->SetParameters(parameters);
  std::vector<double> got_sum(layout.size()), want_sum(layout.size());
  for (const size_t examples : {16, 16, 5}) {
    const Batch batch = testing::RandomBatch(layout, examples, examples);
    std::vector<float> got(layout.size(), NAN), want(layout.size());
    ASSERT_OK_AND_ASSIGN(const StepResult step, cuda->LossAndGradient(batch, {1, 2, 3}, got));
    ASSERT_OK_AND_ASSIGN(const StepResult expected,
                         oracle->LossAndGradient(batch, {1, 2, 3}, want));
    EXPECT_NEAR(step.loss_mean, expected.loss_mean, 3e-5 * (1 + expected.loss_mean));
    EXPECT_EQ(step.correct, expected.correct);
    EXPECT_EQ(step.examples, examples);
    for (size_t i = 0; i < got.size(); ++i) {
      got_sum[i] += static_cast<double>(examples) * got[i];
      want_sum[i] += static_cast<double>(examples) * want[i];
    }
    ASSERT_OK_AND_ASSIGN(const EvaluationResult evaluation, cuda->Evaluate(batch));
    ASSERT_OK_AND_ASSIGN(const EvaluationResult expected_evaluation, oracle->Evaluate(batch));
    EXPECT_NEAR(evaluation.loss_sum, expected_evaluation.loss_sum, 1e-3);
    EXPECT_EQ(evaluation.correct, expected_evaluation.correct);
  }
  for (size_t i = 0; i < got_sum.size(); ++i) {
    ASSERT_NEAR(got_sum[i], want_sum[i], 2e-3) << i;
  }
}

// A graph with ids, a label for each step, a tied weight and statistics.
TEST_F(CudaNetworkTest, EqualsTheReferenceOnAGraph) {
  const Model sequences = testing::ParseModel(R"pb(
    input_shape: 6
    layer {
      name: "words"
      embedding { rows: 11 columns: 8 }
    }
    layer {
      name: "x"
      position_embedding {}
    }
    layer { layer_norm {} }
    layer {
      name: "attention"
      self_attention { heads: 2 causal: true }
    }
    layer {
      input: [ "x", "attention" ]
      add {}
    }
    layer { lstm { units: 4 sequences: true bidirectional: true } }
    layer { dense { tied_to: "words" } }
  )pb");
  const Model images = testing::ParseModel(R"pb(
    input_shape: [ 2, 8, 7 ]
    layer {
      name: "x"
      augment { shift: 1 flip: true }
    }
    layer { conv2d { filters: 2 kernel: 3 padding: 1 no_bias: true } }
    layer {
      name: "normal"
      batch_norm {}
    }
    layer {
      input: [ "x", "normal" ]
      concat {}
    }
    layer { local_contrast_norm { window: 3 } }
    layer { locally_connected2d { filters: 3 kernel: 3 } }
    layer { global_average_pool {} }
  )pb");
  for (const auto& [model, ids] : {std::pair(sequences, 11u), std::pair(images, 0u)}) {
    const ParameterLayout layout = testing::MakeLayout(model);
    const std::vector<float> parameters = testing::InitialParameters(layout, 1);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> cuda,
                         CreateNetwork(BackendKind::kCuda, model, layout, {}));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> oracle,
                         CreateNetwork(BackendKind::kReference, model, layout, {}));
    cuda->SetParameters(parameters);
    oracle->SetParameters(parameters);
    for (const size_t examples : {4, 4, 3}) {
      const Batch batch = testing::RandomBatch(layout, examples, examples, ids);
      std::vector<float> got(layout.size(), NAN), want(layout.size());
      ASSERT_OK_AND_ASSIGN(const StepResult step, cuda->LossAndGradient(batch, {1, 2, 3}, got));
      ASSERT_OK_AND_ASSIGN(const StepResult expected,
                           oracle->LossAndGradient(batch, {1, 2, 3}, want));
      EXPECT_NEAR(step.loss_mean, expected.loss_mean, 1e-5 * (1 + expected.loss_mean));
      EXPECT_EQ(step.correct, expected.correct);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << i;
      }
      ASSERT_OK_AND_ASSIGN(const EvaluationResult evaluation, cuda->Evaluate(batch));
      ASSERT_OK_AND_ASSIGN(const EvaluationResult expected_evaluation, oracle->Evaluate(batch));
      EXPECT_NEAR(evaluation.loss_sum, expected_evaluation.loss_sum, 1e-4);
    }
  }
}

TEST_F(CudaNetworkTest, ErrorsAreStatus) {
  const Model model = testing::Mlp();
  const ParameterLayout layout = testing::MakeLayout(model);
  NetworkOptions options;
  options.memory_limit_bytes = 1 << 20;
  EXPECT_THAT(CreateNetwork(BackendKind::kCuda, model, layout, options).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the limit is 1 MiB")));
  options.memory_limit_bytes = 0;
  options.device_index = 1'000'000;
  EXPECT_THAT(CreateNetwork(BackendKind::kCuda, model, layout, options).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("GPU 1000000")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> network,
                       CreateNetwork(BackendKind::kCuda, model, layout, {}));
  const std::vector<float> parameters = testing::InitialParameters(layout, 1);
  network->SetParameters(parameters);
  Batch batch = testing::RandomBatch(layout, 4, 1);
  batch.labels[2] = 10;
  EXPECT_THAT(network->Evaluate(batch).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("label 10 of sample 2")));
}

// Runs everywhere: without a GPU the factory refuses, and says why.
TEST(CudaFactoryTest, WithoutAGpuItSaysSo) {
  if (CudaDeviceCount() > 0) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  const Model model = testing::Mlp();
  const auto network = CreateNetwork(BackendKind::kCuda, model, testing::MakeLayout(model), {});
  EXPECT_THAT(network.status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(CudaBuiltIn() ? "this machine has no usable GPU: "
                                               : "CUDA is not built in")));
}

}  // namespace
}  // namespace monsoon
