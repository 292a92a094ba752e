// -log softmax(outputs)[label]; the batch's loss is summed in double. A sample's
// loss and each entry of its gradient keep their relative precision however
// small they are: log1p of the sum beside the largest output, and the label's
// gradient as minus the sum of the others, not as a difference from 1.
#pragma once

#include <cstdint>
#include <span>

#include "worker/nn/network.h"

namespace monsoon::cpu {

// `outputs` is [labels.size(), classes]. Writes the gradient of the MEAN loss
// to `diff`, of the same shape, unless it is empty. A non-finite output gives
// a non-finite loss.
EvaluationResult SoftmaxCrossEntropy(std::span<const float> outputs,
                                     std::span<const uint32_t> labels, std::span<float> diff);

}  // namespace monsoon::cpu
