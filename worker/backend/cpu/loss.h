// The losses of proto/model.proto, summed over a batch in double.
#pragma once

#include <span>

#include "worker/nn/loss_plan.h"

namespace monsoon::cpu {

// `outputs` is [targets.examples, plan.steps, plan.outputs]. Writes the gradient of the MEAN loss
// to `diff`, of the same shape, unless it is empty. A non-finite output gives a non-finite loss.
LossSums ComputeLoss(const LossPlan& plan, std::span<const float> outputs,
                     const LossTargets& targets, std::span<float> diff);

}  // namespace monsoon::cpu
