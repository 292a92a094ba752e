// Kernels of attention, in the form of elementwise_kernels.h; formulas stand with the operations
// in attention_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/attention_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void MoveToHeads(Stream& stream, const SplitHeads& op, uint64_t count);
void MoveFromHeads(Stream& stream, const JoinHeads& op, uint64_t count);

// scores: [rows][steps], which become probabilities; `scratch` of 2 * rows floats.
void SoftmaxOfSeen(Stream& stream, const SeenSteps& seen, float scale, float* scores,
                   float* scratch, uint64_t rows);
// diffs: of the probabilities, which become those of what was multiplied with `scale`; `scratch`
// of `rows` floats.
void SoftmaxOfSeenGradient(Stream& stream, uint32_t steps, float scale, const float* shares,
                           float* diffs, float* scratch, uint64_t rows);

}  // namespace monsoon::cuda
