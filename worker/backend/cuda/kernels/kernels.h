// The backend's kernels: each enqueues work on a stream and returns; errors go
// to the stream's ErrorLog, with the kernel's name. Pointers are to device
// memory; shapes and formulas stand with the operations in elementwise.h,
// image_ops.h and loss_ops.h. kernels.cc is compiled by nvcc, and by the C++
// compiler for the host stand-in.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/backend/cuda/kernels/loss_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void Activate(Stream& stream, const ActivationForward& op, uint64_t count);
void ActivateBackward(Stream& stream, const ActivationBackward& op, uint64_t count);
void DropOut(Stream& stream, const ApplyDropout& op, uint64_t count);
void AddBiasToRows(Stream& stream, const AddBias& op, uint64_t count);
void SumColumns(Stream& stream, const ColumnSums& op);
void Cast(Stream& stream, const CastToHalf& op, uint64_t count);
void UnscaleGradient(Stream& stream, const Unscale& op, uint64_t count);

void UnfoldColumns(Stream& stream, const Im2col<float>& op, uint64_t group);
void UnfoldColumns(Stream& stream, const Im2col<uint16_t>& op, uint64_t group);
void FoldColumns(Stream& stream, const Col2im& op, uint64_t group);
void ProductToImages(Stream& stream, const ToImages& op, uint64_t group);
void ImagesToRows(Stream& stream, const FromImages<float>& op, uint64_t group);
void ImagesToRows(Stream& stream, const FromImages<uint16_t>& op, uint64_t group);
void SumChannels(Stream& stream, const ChannelSums& op);
void Pool(Stream& stream, const PoolForward& op, uint64_t outputs);
void PoolGradient(Stream& stream, const PoolBackward& op, uint64_t inputs);

// The loss of a batch. All arrays are on the device; see loss_ops.h.
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
