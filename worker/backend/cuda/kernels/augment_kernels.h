// Kernels of augmentation, in the form of elementwise_kernels.h; what they do stands with the
// operations in augment_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/augment_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void DrawPlacements(Stream& stream, const DrawPlacement& op, uint64_t examples);
void AugmentImages(Stream& stream, const AugmentForward& op, uint64_t outputs);
void AugmentGradient(Stream& stream, const AugmentBackward& op, uint64_t inputs);

}  // namespace monsoon::cuda
