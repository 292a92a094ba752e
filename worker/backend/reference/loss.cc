#include "worker/backend/reference/loss.h"

#include "worker/backend/reference/softmax_cross_entropy.h"

namespace monsoon::reference {

LossSums ComputeLoss(const LossPlan& plan, std::span<const double> outputs,
                     const LossTargets& targets, std::span<double> diff) {
  const LossSums sums = SoftmaxCrossEntropy(outputs, targets.labels, diff);
  return {sums.loss / static_cast<double>(plan.steps), (sums.correct + plan.steps / 2) / plan.steps};
}

}  // namespace monsoon::reference
