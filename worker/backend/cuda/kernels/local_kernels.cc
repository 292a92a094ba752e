#include "worker/backend/cuda/kernels/local_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void UnfoldToPatches(Stream& stream, const UnfoldPatches<float>& op, uint64_t columns) {
  ForEach(stream, "patches", columns, op);
}

void UnfoldToPatches(Stream& stream, const UnfoldPatches<uint16_t>& op, uint64_t columns) {
  ForEach(stream, "patches to half", columns, op);
}

void FoldFromPatches(Stream& stream, const FoldPatches& op, uint64_t inputs) {
  ForEach(stream, "patches' gradient", inputs, op);
}

void MoveToOutputs(Stream& stream, const ProductsToOutputs& op, uint64_t outputs) {
  ForEach(stream, "local output", outputs, op);
}

void MoveToProducts(Stream& stream, const OutputsToProducts<float>& op, uint64_t outputs) {
  ForEach(stream, "local gradient", outputs, op);
}

void MoveToProducts(Stream& stream, const OutputsToProducts<uint16_t>& op, uint64_t outputs) {
  ForEach(stream, "local gradient to half", outputs, op);
}

}  // namespace monsoon::cuda
