// Row-wise Adagrad (proto/model.proto, RowAdagrad; as in Naumov et al. 2019, DLRM): one sum of
// squares for a row of n values.
//   s <- s + |g|^2 / n;  row <- row - learning_rate g / (sqrt(s) + epsilon)
// Its numbers stand in the table of optimizers (optimizer_kinds.h); its step is of a row, not of
// each parameter by itself.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>

#include "proto/model.pb.h"

namespace monsoon {

struct RowAdagradConstants {
  float learning_rate = 0;
  float epsilon = 0;

  // Of one whose defaults are filled in (TableInfo).
  static RowAdagradConstants Of(const RowAdagrad& optimizer) {
    return {static_cast<float>(optimizer.learning_rate()), static_cast<float>(optimizer.epsilon())};
  }
};

// One row's step: `gradient`, `row` and the row's sum. Sums of squares that overflow leave the
// row as it is: its rate would be 0.
void StepRow(const RowAdagradConstants& constants, const float* gradient, size_t columns,
             float* row, float* sum);

}  // namespace monsoon
