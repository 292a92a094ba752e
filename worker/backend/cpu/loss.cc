#include "worker/backend/cpu/loss.h"

#include "worker/backend/cpu/softmax_cross_entropy.h"

namespace monsoon::cpu {

LossSums ComputeLoss(const LossPlan& plan, std::span<const float> outputs,
                     const LossTargets& targets, std::span<float> diff) {
  const EvaluationResult sums = SoftmaxCrossEntropy(outputs, targets.labels, diff);
  return {sums.loss_sum / static_cast<double>(plan.steps),
          (sums.correct + plan.steps / 2) / plan.steps};
}

}  // namespace monsoon::cpu
