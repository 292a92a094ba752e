// -log softmax(outputs)[label], averaged over the batch in the gradient; as log1p
// and minus the sum of the others, so that small ones keep their digits.
#pragma once

#include <cstdint>
#include <span>

#include "worker/nn/loss_plan.h"

namespace monsoon::reference {

// `outputs` is [labels.size(), classes]. Writes the gradient of the MEAN loss
// to `diff`, of the same shape, unless it is empty.
LossSums SoftmaxCrossEntropy(std::span<const double> outputs, std::span<const uint32_t> labels,
                             std::span<double> diff);

}  // namespace monsoon::reference
