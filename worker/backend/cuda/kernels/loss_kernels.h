// The loss of a batch, in the form of elementwise_kernels.h; formulas stand with the
// operations in loss_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/loss_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

// The loss of a batch. All arrays are on the device.
struct LossArrays {
  const float* outputs;    // [examples, classes]
  const uint32_t* labels;  // [examples]
  const StepControl* control;
  Largest* largest;   // [examples], scratch
  RowSums* row_sums;  // [examples], scratch
  double* losses;     // [examples], scratch
  StepSums* sums;     // the answer
  float* diff;        // [examples, classes]; null: no gradient
};
void SoftmaxCrossEntropy(Stream& stream, const LossArrays& arrays, uint64_t examples,
                         uint64_t classes);

}  // namespace monsoon::cuda
