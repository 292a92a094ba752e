// Kernels of joins and of layers that compute each value by itself, in the form of
// elementwise_kernels.h; formulas stand with the operations in pointwise_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/pointwise_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void JoinTwo(Stream& stream, const JoinPair& op, uint64_t count);
void MoveColumns(Stream& stream, const CopyColumns& op, uint64_t count);
void Gelu(Stream& stream, const GeluForward& op, uint64_t count);
void GeluGradient(Stream& stream, const GeluBackward& op, uint64_t count);
void RescaleValues(Stream& stream, const Affine& op, uint64_t count);
void AddToRows(Stream& stream, const AddRow& op, uint64_t count);
void AverageMiddle(Stream& stream, const MiddleMean& op, uint64_t outputs);
void AverageGradient(Stream& stream, const MiddleMeanBackward& op, uint64_t inputs);

}  // namespace monsoon::cuda
