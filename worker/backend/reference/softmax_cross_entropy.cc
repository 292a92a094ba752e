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
    // Shifted by the maximum, no exponential overflows; that of the maximum is 1,
    // and a small sum beside it is not lost in 1 + sum.
    const auto exponential = [&](size_t c) {
      return row.begin() + static_cast<ptrdiff_t>(c) == largest ? 1.0 : std::exp(row[c] - *largest);
    };
    double beside = 0, others = 0;  // without the largest; without the label
    for (size_t c = 0; c < classes; ++c) {
      beside += row.begin() + static_cast<ptrdiff_t>(c) == largest ? 0.0 : exponential(c);
      others += c == labels[n] ? 0.0 : exponential(c);
    }
    sums.loss += std::log1p(beside) + (*largest - row[labels[n]]);
    const double scale = 1.0 / ((1.0 + beside) * static_cast<double>(labels.size()));
    for (size_t c = 0; c < classes && !diff.empty(); ++c) {
      diff[n * classes + c] = (c == labels[n] ? -others : exponential(c)) * scale;
    }
  }
  return sums;
}

}  // namespace monsoon::reference
