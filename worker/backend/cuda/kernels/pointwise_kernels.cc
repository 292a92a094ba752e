#include "worker/backend/cuda/kernels/pointwise_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void JoinTwo(Stream& stream, const JoinPair& op, uint64_t count) {
  ForEach(stream, "join", count, op);
}

void MoveColumns(Stream& stream, const CopyColumns& op, uint64_t count) {
  ForEach(stream, "columns", count, op);
}

void Gelu(Stream& stream, const GeluForward& op, uint64_t count) {
  ForEach(stream, "gelu", count, op);
}

void GeluGradient(Stream& stream, const GeluBackward& op, uint64_t count) {
  ForEach(stream, "gelu gradient", count, op);
}

void RescaleValues(Stream& stream, const Affine& op, uint64_t count) {
  ForEach(stream, "rescale", count, op);
}

void AddToRows(Stream& stream, const AddRow& op, uint64_t count) {
  ForEach(stream, "row addition", count, op);
}

void AverageMiddle(Stream& stream, const MiddleMean& op, uint64_t outputs) {
  ForEach(stream, "global mean", outputs, op);
}

void AverageGradient(Stream& stream, const MiddleMeanBackward& op, uint64_t inputs) {
  ForEach(stream, "global mean gradient", inputs, op);
}

}  // namespace monsoon::cuda
