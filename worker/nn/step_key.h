// StepKey: what the randomness of one training step depends on, so that a
// repeated step draws the same dropout masks on any backend.
#pragma once

#include <cstdint>
#include <span>

namespace monsoon {

struct StepKey {
  uint64_t seed = 0;
  uint32_t worker = 0;
  uint64_t step = 0;
  // Batch jobs: the data set's index of each sample of the batch. A sample's
  // masks then depend on (seed, index) alone, so that the loss is a function of
  // the parameters, however the samples are batched and whoever computes them.
  // Empty: masks follow (seed, worker, step).
  std::span<const uint32_t> samples;
};

}  // namespace monsoon
