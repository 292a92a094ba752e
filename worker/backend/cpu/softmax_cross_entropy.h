// -log softmax(outputs)[label]; the batch's loss is summed in double.
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
