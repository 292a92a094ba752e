// The loss of a batch, in the form of elementwise_kernels.h; formulas stand with the
// operations in loss_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/loss_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"
#include "worker/nn/loss_plan.h"

namespace monsoon::cuda {

// The loss of a batch. All arrays are on the device. A row is a step of a sample.
struct LossArrays {
  const float* outputs;    // [rows, classes]
  const uint32_t* labels;  // [rows]; zero where samples have none
  const StepControl* control;
  Largest* largest;   // [rows], scratch; row_sums of the softmax alone
  RowSums* row_sums;  // [rows], scratch
  double* losses;     // [rows], scratch
  StepSums* sums;     // the answer
  float* diff;        // [rows, classes]; null: no gradient
  // [rows, classes], of losses that take them; where samples have labels alone, a label is the
  // target of its row's first output (control->has_targets tells).
  const float* targets = nullptr;
  // [rows]: the sample's weight times its label's class weight. Null: 1 each.
  const float* weights = nullptr;
};

// What a model is trained and judged by; all kinds begin here.
void ComputeLoss(Stream& stream, const LossPlan& plan, const LossArrays& arrays, uint64_t examples);

void SoftmaxCrossEntropy(Stream& stream, const LossArrays& arrays, uint64_t examples,
                         uint64_t classes, uint64_t steps = 1);

}  // namespace monsoon::cuda
