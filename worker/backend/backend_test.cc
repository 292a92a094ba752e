#include "worker/backend/backend.h"

#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/nn/test_models.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST(BackendTest, BothBackendsAgreeOnTheLoss) {
  const Model model = testing::Mlp();
  const ParameterLayout layout = testing::MakeLayout(model);
  const std::vector<float> parameters = testing::InitialParameters(layout, 1);
  const Batch batch = testing::RandomBatch(layout, 4, 2);
  std::vector<double> losses;
  for (const BackendKind kind : {BackendKind::kCpu, BackendKind::kReference}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> network,
                         CreateNetwork(kind, model, layout, NetworkOptions{}));
    network->SetParameters(parameters);
    ASSERT_OK_AND_ASSIGN(const EvaluationResult result, network->Evaluate(batch));
    losses.push_back(result.loss_sum);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-4);
}

TEST(BackendTest, RefusesZeroThreads) {
  const Model model = testing::Mlp();
  EXPECT_THAT(CreateNetwork(BackendKind::kCpu, model, testing::MakeLayout(model), NetworkOptions{0})
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("threads")));
}

TEST(BackendTest, ACpuRefusesHalfPrecisionByName) {
  const Model model = testing::Mlp();
  const ParameterLayout layout = testing::MakeLayout(model);
  for (const BackendKind kind : {BackendKind::kCpu, BackendKind::kReference}) {
    NetworkOptions options;
    options.precision = ComputePrecision::kTf32;
    EXPECT_OK(CreateNetwork(kind, model, layout, options));
    options.precision = ComputePrecision::kBfloat16;
    EXPECT_THAT(CreateNetwork(kind, model, layout, options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("BFLOAT16")));
    options.precision = ComputePrecision::kFloat16;
    EXPECT_THAT(CreateNetwork(kind, model, layout, options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("precision FLOAT16")));
  }
}

}  // namespace
}  // namespace monsoon
