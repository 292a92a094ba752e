#include "worker/backend/cuda/kernels/augment_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void DrawPlacements(Stream& stream, const DrawPlacement& op, uint64_t examples) {
  ForEach(stream, "placements", examples, op);
}

void AugmentImages(Stream& stream, const AugmentForward& op, uint64_t outputs) {
  ForEach(stream, "augmentation", outputs, op);
}

void AugmentGradient(Stream& stream, const AugmentBackward& op, uint64_t inputs) {
  ForEach(stream, "augmentation gradient", inputs, op);
}

}  // namespace monsoon::cuda
