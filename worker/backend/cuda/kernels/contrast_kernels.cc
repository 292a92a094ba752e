#include "worker/backend/cuda/kernels/contrast_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void SumProducts(Stream& stream, const ChannelProduct& op, uint64_t count) {
  ForEach(stream, "sum of channels", count, op);
}

void RunWindow(Stream& stream, const AxisWindow& op, uint64_t count) {
  ForEach(stream, "contrast window", count, op);
}

void Subtract(Stream& stream, const SubtractMap& op, uint64_t count) {
  ForEach(stream, "subtract map", count, op);
}

void TakeRoots(Stream& stream, const RootOfMap& op, uint64_t count) {
  ForEach(stream, "roots of map", count, op);
}

void AverageMaps(Stream& stream, const MapMean& op, uint64_t samples) {
  ReduceRows(stream, "means of maps", samples, op);
}

void Divide(Stream& stream, const DivideByMap& op, uint64_t count) {
  ForEach(stream, "contrast", count, op);
}

void DivisorGradient(Stream& stream, const DivisorDiffs& op, uint64_t samples) {
  ReduceRows(stream, "divisor gradient", samples, op);
}

void RootGradient(Stream& stream, const RootDiffs& op, uint64_t count) {
  ForEach(stream, "root gradient", count, op);
}

void DivideGradient(Stream& stream, const DivisionBackward& op, uint64_t count) {
  ForEach(stream, "contrast gradient", count, op);
}

}  // namespace monsoon::cuda
