// Kernels of locally connected layers, in the form of elementwise_kernels.h; shapes stand with
// the operations in local_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/local_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void UnfoldToPatches(Stream& stream, const UnfoldPatches<float>& op, uint64_t columns);
void UnfoldToPatches(Stream& stream, const UnfoldPatches<uint16_t>& op, uint64_t columns);
void FoldFromPatches(Stream& stream, const FoldPatches& op, uint64_t inputs);
void MoveToOutputs(Stream& stream, const ProductsToOutputs& op, uint64_t outputs);
void MoveToProducts(Stream& stream, const OutputsToProducts<float>& op, uint64_t outputs);
void MoveToProducts(Stream& stream, const OutputsToProducts<uint16_t>& op, uint64_t outputs);

}  // namespace monsoon::cuda
