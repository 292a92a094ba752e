#include "worker/backend/cuda/kernels/norm_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void FindRowMoments(Stream& stream, const float* in, uint32_t columns, float epsilon,
                    RowMoments* moments, uint64_t rows) {
  ReduceRows(stream, "means of rows", rows, RowMean{in, columns, moments});
  ReduceRows(stream, "deviations of rows", rows, RowDeviation{in, columns, epsilon, moments});
}

void NormaliseRows(Stream& stream, const LayerNormForward& op, uint64_t count) {
  ForEach(stream, "layer norm", count, op);
}

void FindRowDiffMeans(Stream& stream, const RowDiffMeans& op, uint64_t rows) {
  ReduceRows(stream, "layer norm sums", rows, op);
}

void NormaliseRowsGradient(Stream& stream, const LayerNormBackward& op, uint64_t count) {
  ForEach(stream, "layer norm gradient", count, op);
}

void SquareDeviations(Stream& stream, const BatchDeviation& op, uint64_t count) {
  ForEach(stream, "squared deviations", count, op);
}

void NormaliseBatch(Stream& stream, const BatchNormForward& op, uint64_t count) {
  ForEach(stream, "batch norm", count, op);
}

void NormalProducts(Stream& stream, const BatchNormProducts& op, uint64_t count) {
  ForEach(stream, "batch norm products", count, op);
}

void NormaliseBatchGradient(Stream& stream, const BatchNormBackward& op, uint64_t count) {
  ForEach(stream, "batch norm gradient", count, op);
}

void MoveRunningMoments(Stream& stream, const MoveMoments& op, uint64_t channels) {
  ForEach(stream, "running moments", channels, op);
}

}  // namespace monsoon::cuda
