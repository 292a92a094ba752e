// Kernels of local contrast normalisation, in the form of elementwise_kernels.h; formulas stand
// with the operations in contrast_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/contrast_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void SumProducts(Stream& stream, const ChannelProduct& op, uint64_t count);
void RunWindow(Stream& stream, const AxisWindow& op, uint64_t count);
void Subtract(Stream& stream, const SubtractMap& op, uint64_t count);
void TakeRoots(Stream& stream, const RootOfMap& op, uint64_t count);
void AverageMaps(Stream& stream, const MapMean& op, uint64_t samples);
void Divide(Stream& stream, const DivideByMap& op, uint64_t count);
void DivisorGradient(Stream& stream, const DivisorDiffs& op, uint64_t samples);
void RootGradient(Stream& stream, const RootDiffs& op, uint64_t count);
void DivideGradient(Stream& stream, const DivisionBackward& op, uint64_t count);

}  // namespace monsoon::cuda
