#include "worker/nn/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace monsoon {
namespace {

template <typename T>
void SoftmaxRow(std::span<const T> row, std::span<float> out) {
  // max_element passes over NaN, and infinity minus itself would be lost in the sum.
  if (!std::all_of(row.begin(), row.end(), [](T value) { return std::isfinite(value); })) {
    std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const T value : row) {
    sum += std::exp(static_cast<double>(value) - largest);
  }
  for (size_t c = 0; c < row.size(); ++c) {
    out[c] = static_cast<float>(std::exp(static_cast<double>(row[c]) - largest) / sum);
  }
}

template <typename T>
void SoftmaxRows(std::span<const T> outputs, size_t classes, std::span<float> probabilities) {
  CHECK_EQ(outputs.size(), probabilities.size());
  for (size_t at = 0; at < outputs.size(); at += classes) {
    SoftmaxRow(outputs.subspan(at, classes), probabilities.subspan(at, classes));
  }
}

}  // namespace

void Softmax(std::span<const float> outputs, size_t classes, std::span<float> probabilities) {
  SoftmaxRows(outputs, classes, probabilities);
}

void Softmax(std::span<const double> outputs, size_t classes, std::span<float> probabilities) {
  SoftmaxRows(outputs, classes, probabilities);
}

}  // namespace monsoon
