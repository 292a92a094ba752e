// The mask of one inverted dropout layer (Srivastava et al. 2014): a pure
// function of (seed, worker, step, layer, element), or in batch jobs of (seed,
// sample, layer, element of the sample), shared by all backends.
#pragma once

#include <cstdint>
#include <span>

#include "worker/nn/step_key.h"

namespace monsoon {

// Fills `mask` with 0 (probability `rate`) or 1 / (1 - rate). Element i is the
// i-th activation in sample-major logical order (n, c, h, w). `layer` is the
// layer's index in the model; rate is in [0, 1). Where key.samples is not empty
// it names every sample of the batch.
void FillDropoutMask(const StepKey& key, uint32_t layer, double rate, std::span<float> mask);

}  // namespace monsoon
