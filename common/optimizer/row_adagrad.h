// Row-wise Adagrad (proto/model.proto, RowAdagrad; as in Naumov et al. 2019, DLRM): one sum of
// squares for a row of n values.
//   s <- s + |g|^2 / n;  row <- row - learning_rate g / (sqrt(s) + epsilon)
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>

namespace monsoon {

struct RowAdagradConstants {
  float learning_rate = 0;
  float epsilon = 0;
};

// One row's step: `gradient`, `row` and the row's sum. Sums of squares that overflow leave the
// row as it is: its rate would be 0.
void StepRow(const RowAdagradConstants& constants, const float* gradient, size_t columns,
             float* row, float* sum);

}  // namespace monsoon
