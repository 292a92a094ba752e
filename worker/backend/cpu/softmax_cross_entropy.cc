#include "worker/backend/cpu/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace monsoon::cpu {

EvaluationResult SoftmaxCrossEntropy(std::span<const float> outputs,
                                     std::span<const uint32_t> labels, std::span<float> diff) {
  const size_t classes = outputs.size() / labels.size();
  const float scale = 1.0f / static_cast<float>(labels.size());
  EvaluationResult result;
  result.examples = labels.size();
  for (size_t n = 0; n < labels.size(); ++n) {
    const std::span<const float> row = outputs.subspan(n * classes, classes);
    const auto largest = std::max_element(row.begin(), row.end());
    result.correct += static_cast<size_t>(largest - row.begin()) == labels[n] ? 1 : 0;
    // Shifted by the maximum, no exponential overflows.
    float total = 0;
    if (diff.empty()) {
      for (const float value : row) {
        total += std::exp(value - *largest);
      }
    } else {
      const std::span<float> row_diff = diff.subspan(n * classes, classes);
      for (size_t c = 0; c < classes; ++c) {
        row_diff[c] = std::exp(row[c] - *largest);
        total += row_diff[c];
      }
      for (float& value : row_diff) {
        value *= scale / total;
      }
      row_diff[labels[n]] -= scale;
    }
    result.loss_sum += std::log(static_cast<double>(total)) + *largest - row[labels[n]];
  }
  return result;
}

}  // namespace monsoon::cpu
