// -log softmax(outputs)[label], averaged over the batch in the gradient; as log1p
// and minus the sum of the others, so that small ones keep their digits.
#pragma once

#include <cstdint>
#include <span>

namespace monsoon::reference {

struct LossSums {
  double loss = 0;       // summed over the samples
  uint64_t correct = 0;  // samples whose first largest output is their label's
};

// `outputs` is [labels.size(), classes]. Writes the gradient of the MEAN loss
// to `diff`, of the same shape, unless it is empty.
LossSums SoftmaxCrossEntropy(std::span<const double> outputs, std::span<const uint32_t> labels,
                             std::span<double> diff);

}  // namespace monsoon::reference
