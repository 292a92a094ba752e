#include "worker/backend/cuda/kernels/elementwise_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void Activate(Stream& stream, const ActivationForward& op, uint64_t count) {
  ForEach(stream, "activation", count, op);
}

void ActivateBackward(Stream& stream, const ActivationBackward& op, uint64_t count) {
  ForEach(stream, "activation gradient", count, op);
}

void DropOut(Stream& stream, const ApplyDropout& op, uint64_t examples) {
  ForEach(stream, "dropout", op.Fours(examples), op);
}

void AddBiasToRows(Stream& stream, const AddBias& op, uint64_t count) {
  ForEach(stream, "bias", count, op);
}

void Cast(Stream& stream, const CastToHalf& op, uint64_t count) {
  ForEach(stream, "cast to half", count, op);
}

void UnscaleGradient(Stream& stream, const Unscale& op, uint64_t count) {
  ForEach(stream, "loss scale", count, op);
}

}  // namespace monsoon::cuda
