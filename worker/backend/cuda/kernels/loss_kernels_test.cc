// All losses with all settings against the reference, on a GPU or its stand-in.
#include "worker/backend/cuda/kernels/loss_kernels.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/kernels/kernel_test.h"
#include "worker/backend/reference/loss.h"

namespace monsoon::cuda {
namespace {

using testing::DeviceArray;
using testing::KernelTest;

constexpr uint64_t kExamples = 37;

class LossKernelTest : public KernelTest {
 protected:
  struct Answer {
    StepSums sums;
    std::vector<float> diff;
  };
  // `row_weights`: of each row, the class's included.
  Answer Compute(const LossPlan& plan, const std::vector<float>& outputs,
                 const std::vector<uint32_t>& labels, const std::vector<float>& targets,
                 const std::vector<float>& row_weights, uint64_t examples) {
    const uint64_t rows = examples * plan.steps;
    StepControl control = {};
    control.loss_scale = 4.0f;  // of the gradient alone
    control.has_targets = targets.empty() ? 0 : 1;
    const std::vector<float> none(outputs.size(), std::nanf(""));
    const auto device_outputs = OnDevice(outputs);
    const auto device_targets = OnDevice(targets.empty() ? none : targets);
    const auto device_weights = OnDevice(row_weights);
    const DeviceArray<uint32_t> device_labels(*stream_, labels);
    const DeviceArray<StepControl> device_control(*stream_, std::vector<StepControl>{control});
    const DeviceArray<Largest> largest(*stream_, rows);
    const DeviceArray<RowSums> row_sums(*stream_, rows);
    const DeviceArray<double> losses(*stream_, rows);
    const DeviceArray<StepSums> answer(*stream_, 1);
    const auto diff = Poisoned(outputs.size());
    ComputeLoss(*stream_, plan,
                LossArrays{device_outputs.data(), device_labels.data(), device_control.data(),
                           largest.data(), row_sums.data(), losses.data(), answer.data(),
                           diff.data(), device_targets.data(), device_weights.data()},
                examples);
    return {answer.Get()[0], diff.Get()};
  }

  void ExpectAsReference(const LossPlan& plan, bool with_targets, float lead) {
    const uint64_t rows = kExamples * plan.steps;
    const uint64_t classes = plan.outputs == 1 ? 2 : plan.outputs;
    std::vector<float> outputs = testing::Random(rows * plan.outputs, 5);
    std::vector<float> targets(with_targets ? outputs.size() : 0);
    std::vector<float> weights(kExamples), row_weights(rows);
    std::vector<uint32_t> labels(rows);
    for (uint64_t i = 0; i < rows; ++i) {
      labels[i] = static_cast<uint32_t>(i * 7 % classes);
      for (uint64_t c = 0; c < plan.outputs; ++c) {
        const bool up = plan.outputs == 1 ? labels[i] == 1 : labels[i] == c;
        outputs[i * plan.outputs + c] += up ? lead : -lead;
      }
      weights[i / plan.steps] = static_cast<float>(i / plan.steps % 4) / 2;
      row_weights[i] = weights[i / plan.steps];
      if (!plan.class_weights.empty()) {
        row_weights[i] *= plan.class_weights[labels[i]];
      }
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i] = static_cast<float>(i % 9) / 8;
    }
    LossTargets wanted{.weights = weights, .examples = kExamples};
    if (with_targets) {
      wanted.targets = targets;
    } else {
      wanted.labels = labels;
    }
    const std::vector<double> precise(outputs.begin(), outputs.end());
    std::vector<double> want(outputs.size());
    const LossSums sums = reference::ComputeLoss(plan, precise, wanted, want);
    const Answer got = Compute(plan, outputs, with_targets ? std::vector<uint32_t>(rows) : labels,
                               targets, row_weights, kExamples);
    EXPECT_NEAR(got.sums.loss, sums.loss, 1e-5 * sums.loss) << lead;
    EXPECT_EQ(got.sums.correct, sums.correct);
    const double cancels = with_targets || plan.label_smoothing > 0 ? 1e-7 : 1e-36;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got.diff[i] / 4, want[i], 1e-5 * std::abs(want[i]) + cancels)
          << lead << " at " << i;
    }
  }
};

TEST_F(LossKernelTest, EachLossIsTheReferencesWithEachSetting) {
  struct Case {
    LossKind kind;
    uint64_t outputs;
    bool targets;
  };
  for (const Case& each :
       {Case{LossKind::kSoftmaxCrossEntropy, 300, false},
        Case{LossKind::kSoftmaxCrossEntropy, 2, false},
        Case{LossKind::kOneVersusAllLogistic, 300, false},
        Case{LossKind::kBinaryCrossEntropy, 1, false}, Case{LossKind::kBinaryCrossEntropy, 1, true},
        Case{LossKind::kBinaryCrossEntropy, 5, false}, Case{LossKind::kBinaryCrossEntropy, 5, true},
        Case{LossKind::kMeanSquaredError, 1, false}, Case{LossKind::kMeanSquaredError, 3, true}}) {
    SCOPED_TRACE(static_cast<int>(each.kind) * 1000 + static_cast<int>(each.outputs));
    for (const uint64_t steps : {1, 3}) {
      for (const float lead : {-20.0f, 0.0f, 3.0f, 30.0f}) {
        LossPlan plan{.kind = each.kind, .outputs = each.outputs, .steps = steps};
        ExpectAsReference(plan, each.targets, lead);
        if (each.kind == LossKind::kSoftmaxCrossEntropy ||
            each.kind == LossKind::kBinaryCrossEntropy) {
          plan.label_smoothing = 0.125;
          ExpectAsReference(plan, each.targets, lead);
        }
        if (!each.targets && each.kind != LossKind::kMeanSquaredError) {
          plan.class_weights.assign(each.outputs == 1 ? 2 : each.outputs, 0.5f);
          plan.class_weights.back() = 3;
          ExpectAsReference(plan, each.targets, lead);
        }
      }
    }
  }
}

TEST_F(LossKernelTest, NothingThatIsNotFiniteIsHidden) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const LossKind kind : {LossKind::kOneVersusAllLogistic, LossKind::kBinaryCrossEntropy,
                              LossKind::kMeanSquaredError}) {
    for (const float bad : {infinity, -infinity, std::nanf("")}) {
      const bool squared = kind == LossKind::kMeanSquaredError;
      for (const std::vector<float>& outputs : {std::vector<float>{bad, 0}, {0, bad}}) {
        const Answer answer =
            Compute({.kind = kind, .outputs = 2}, outputs, {squared ? 0u : 1u},
                    squared ? std::vector<float>{0, 0} : std::vector<float>(), {1.0f}, 1);
        EXPECT_FALSE(std::isfinite(answer.sums.loss)) << static_cast<int>(kind) << " " << bad;
      }
    }
  }
}

}  // namespace
}  // namespace monsoon::cuda
