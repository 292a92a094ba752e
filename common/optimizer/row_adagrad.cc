#include "common/optimizer/row_adagrad.h"

#include <cmath>
#include <limits>

namespace monsoon {

void StepRow(const RowAdagradConstants& constants, const float* gradient, size_t columns,
             float* row, float* sum) {
  // Eight sums, so that the loop is one of vectors without a change of what is computed.
  constexpr size_t kLanes = 8;
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += gradient[i + lane] * gradient[i + lane];
    }
  }
  for (size_t lane = 0; i < columns; ++i, ++lane) {
    lanes[lane] += gradient[i] * gradient[i];
  }
  const float squares = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                        ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  const float grown = *sum + squares / static_cast<float>(columns);
  if (!(grown <= std::numeric_limits<float>::max())) {
    *sum = std::numeric_limits<float>::max();
    return;
  }
  *sum = grown;
  const float denominator = std::sqrt(grown) + constants.epsilon;
  if (denominator == 0) {
    return;  // a gradient of zeros, and nothing before it
  }
  const float rate = constants.learning_rate / denominator;
  for (size_t j = 0; j < columns; ++j) {
    row[j] -= rate * gradient[j];
  }
}

}  // namespace monsoon
