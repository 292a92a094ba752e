// Kernels of normalisations, in the form of elementwise_kernels.h; formulas stand with the
// operations in norm_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/norm_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

// moments: [rows].
void FindRowMoments(Stream& stream, const float* in, uint32_t columns, float epsilon,
                    RowMoments* moments, uint64_t rows);
void NormaliseRows(Stream& stream, const LayerNormForward& op, uint64_t count);
void FindRowDiffMeans(Stream& stream, const RowDiffMeans& op, uint64_t rows);
void NormaliseRowsGradient(Stream& stream, const LayerNormBackward& op, uint64_t count);

void SquareDeviations(Stream& stream, const BatchDeviation& op, uint64_t count);
void NormaliseBatch(Stream& stream, const BatchNormForward& op, uint64_t count);
void NormalProducts(Stream& stream, const BatchNormProducts& op, uint64_t count);
void NormaliseBatchGradient(Stream& stream, const BatchNormBackward& op, uint64_t count);
void MoveRunningMoments(Stream& stream, const MoveMoments& op, uint64_t channels);

}  // namespace monsoon::cuda
