#include "worker/backend/cpu/loss.h"

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/cpu/softmax_cross_entropy.h"
#include "worker/backend/reference/loss.h"

namespace monsoon::cpu {
namespace {

constexpr size_t kExamples = 8;

struct Samples {
  Samples(const LossPlan& plan, float lead)
      : outputs(kExamples * plan.steps * plan.outputs), targets(outputs.size()) {
    const PhiloxStream stream(7, StreamKind::kTest);
    for (size_t i = 0; i < kExamples * plan.steps; ++i) {
      const size_t classes = plan.outputs == 1 ? 2 : plan.outputs;
      labels.push_back(static_cast<uint32_t>(i * 5 % classes));
      for (size_t c = 0; c < plan.outputs; ++c) {
        const size_t at = i * plan.outputs + c;
        const bool up = plan.outputs == 1 ? labels[i] == 1 : labels[i] == c;
        outputs[at] = stream.Normal(at) + (up ? lead : -lead);
        targets[at] = static_cast<float>(at % 9) / 8;
      }
    }
  }
  std::vector<float> outputs, targets;
  std::vector<uint32_t> labels;
  std::vector<float> weights = {1, 0.5f, 2, 0, 3, 1, 1, 0.125f};
};

// Each loss and slope by itself, however small.
void ExpectAsReference(const LossPlan& plan, bool with_targets, bool weighted) {
  for (const float lead : {-20.0f, -3.0f, 0.0f, 2.0f, 20.0f, 40.0f}) {
    const Samples samples(plan, lead);
    LossTargets targets{.examples = kExamples};
    if (with_targets) {
      targets.targets = samples.targets;
    } else {
      targets.labels = samples.labels;
    }
    if (weighted) {
      targets.weights = samples.weights;
    }
    const std::vector<double> precise(samples.outputs.begin(), samples.outputs.end());
    std::vector<double> want(precise.size());
    const LossSums expected = reference::ComputeLoss(plan, precise, targets, want);
    std::vector<float> diff(precise.size());
    const LossSums sums = ComputeLoss(plan, samples.outputs, targets, diff);
    EXPECT_NEAR(sums.loss, expected.loss, 1e-5 * expected.loss) << lead;
    EXPECT_EQ(sums.loss, ComputeLoss(plan, samples.outputs, targets, {}).loss);
    EXPECT_EQ(sums.correct, expected.correct);
    EXPECT_EQ(sums.unjudged, expected.unjudged);
    // A target between 0 and 1 has a slope of two terms that may cancel.
    const double cancels = with_targets || plan.label_smoothing > 0 ? 1e-7 : 1e-37;
    for (size_t i = 0; i < diff.size(); ++i) {
      EXPECT_NEAR(diff[i], want[i], 1e-5 * std::abs(want[i]) + cancels) << lead << ", " << i;
    }
  }
}

class CpuLossTest : public ::testing::TestWithParam<std::tuple<LossPlan, bool>> {};

TEST_P(CpuLossTest, IsTheReferencesWithEachSetting) {
  const auto& [base, with_targets] = GetParam();
  for (const uint64_t steps : {1, 3}) {
    LossPlan plan = base;
    plan.steps = steps;
    ExpectAsReference(plan, with_targets, false);
    ExpectAsReference(plan, with_targets, true);
    if (plan.kind != LossKind::kMeanSquaredError && !with_targets) {
      plan.class_weights.assign(plan.outputs == 1 ? 2 : plan.outputs, 0.5f);
      plan.class_weights.back() = 3;
      ExpectAsReference(plan, with_targets, false);
      ExpectAsReference(plan, with_targets, true);
    }
    if (plan.kind == LossKind::kSoftmaxCrossEntropy || plan.kind == LossKind::kBinaryCrossEntropy) {
      plan.label_smoothing = 0.1;
      ExpectAsReference(plan, with_targets, true);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Losses, CpuLossTest,
    ::testing::Values(
        std::tuple(LossPlan{.kind = LossKind::kSoftmaxCrossEntropy, .outputs = 10}, false),
        std::tuple(LossPlan{.kind = LossKind::kOneVersusAllLogistic, .outputs = 7}, false),
        std::tuple(LossPlan{.kind = LossKind::kBinaryCrossEntropy, .outputs = 1}, false),
        std::tuple(LossPlan{.kind = LossKind::kBinaryCrossEntropy, .outputs = 1}, true),
        std::tuple(LossPlan{.kind = LossKind::kBinaryCrossEntropy, .outputs = 4}, false),
        std::tuple(LossPlan{.kind = LossKind::kBinaryCrossEntropy, .outputs = 4}, true),
        std::tuple(LossPlan{.kind = LossKind::kMeanSquaredError, .outputs = 3}, true),
        std::tuple(LossPlan{.kind = LossKind::kMeanSquaredError, .outputs = 1}, false)));

TEST(CpuLossTest, PlainSoftmaxKeepsItsBits) {
  const LossPlan plan{.kind = LossKind::kSoftmaxCrossEntropy, .outputs = 10};
  const Samples samples(plan, 1);
  std::vector<float> diff(samples.outputs.size()), same(samples.outputs.size());
  const EvaluationResult want = SoftmaxCrossEntropy(samples.outputs, samples.labels, same);
  const LossSums sums =
      ComputeLoss(plan, samples.outputs, {.labels = samples.labels, .examples = kExamples}, diff);
  EXPECT_EQ(sums.loss, want.loss_sum);
  EXPECT_EQ(sums.correct, want.correct);
  EXPECT_EQ(diff, same);
}

TEST(CpuLossTest, NothingThatIsNotFiniteIsHidden) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<uint32_t> label = {1};
  const std::vector<float> weight = {2};
  const LossTargets targets{.labels = label, .weights = weight, .examples = 1};
  for (const LossKind kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kOneVersusAllLogistic,
                              LossKind::kBinaryCrossEntropy}) {
    for (const float bad : {infinity, -infinity, std::nanf("")}) {
      const LossPlan plan{.kind = kind, .outputs = 2};
      EXPECT_FALSE(std::isfinite(ComputeLoss(plan, std::vector<float>{0, bad}, targets, {}).loss));
      // As of the plain softmax: what is infinitely unlikely costs nothing.
      if (kind != LossKind::kSoftmaxCrossEntropy || bad != -infinity) {
        EXPECT_FALSE(
            std::isfinite(ComputeLoss(plan, std::vector<float>{bad, 0}, targets, {}).loss));
      }
    }
  }
}

}  // namespace
}  // namespace monsoon::cpu
