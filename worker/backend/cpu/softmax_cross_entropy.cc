#include "worker/backend/cpu/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace monsoon::cpu {

EvaluationResult SoftmaxCrossEntropy(std::span<const float> outputs,
                                     std::span<const uint32_t> labels, std::span<float> diff) {
  const size_t classes = outputs.size() / labels.size();
  const double scale = 1.0 / static_cast<double>(labels.size());
  EvaluationResult result;
  result.examples = labels.size();
  for (size_t n = 0; n < labels.size(); ++n) {
    const std::span<const float> row = outputs.subspan(n * classes, classes);
    const size_t label = labels[n];
    const size_t top = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    result.correct += top == label ? 1 : 0;
    // Shifted by the maximum, no exponential overflows; that of the maximum is 1,
    // and a small sum beside it would be lost in a float near 1.
    double beside = 0;  // without the largest
    double others = 0;  // without the label
    for (size_t c = 0; c < classes; ++c) {
      const float value = c == top ? 1.0f : std::exp(row[c] - row[top]);
      beside += c == top ? 0.0f : value;
      others += c == label ? 0.0f : value;
      if (!diff.empty()) {
        diff[n * classes + c] = value;
      }
    }
    result.loss_sum += std::log1p(beside) + (static_cast<double>(row[top]) - row[label]);
    if (!diff.empty()) {
      const double factor = scale / (1.0 + beside);
      const std::span<float> row_diff = diff.subspan(n * classes, classes);
      for (float& value : row_diff) {
        value *= static_cast<float>(factor);
      }
      row_diff[label] = static_cast<float>(-others * factor);
    }
  }
  return result;
}

}  // namespace monsoon::cpu
