#include "worker/backend/reference/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace monsoon::reference {

LossSums SoftmaxCrossEntropy(std::span<const double> outputs, std::span<const uint32_t> labels,
                             std::span<double> diff) {
  const size_t classes = outputs.size() / labels.size();
  LossSums sums;
  for (size_t n = 0; n < labels.size(); ++n) {
    const std::span<const double> row = outputs.subspan(n * classes, classes);
    const auto largest = std::max_element(row.begin(), row.end());
    sums.correct += static_cast<size_t>(largest - row.begin()) == labels[n] ? 1 : 0;
    // Shifted by the maximum, no exponential overflows.
    double total = 0;
    for (const double value : row) {
      total += std::exp(value - *largest);
    }
    sums.loss += std::log(total) + *largest - row[labels[n]];
    for (size_t c = 0; c < classes && !diff.empty(); ++c) {
      const double probability = std::exp(row[c] - *largest) / total;
      diff[n * classes + c] =
          (probability - (c == labels[n] ? 1.0 : 0.0)) / static_cast<double>(labels.size());
    }
  }
  return sums;
}

}  // namespace monsoon::reference
