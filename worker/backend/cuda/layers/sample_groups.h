// The samples of a batch in groups whose unfolded patches stay in the cache
// (kConvolutionGroupBytes).
#pragma once

#include <algorithm>
#include <cstdint>

#include "worker/backend/cuda/kernels/image_ops.h"

namespace monsoon::cuda {

// Samples of one group at the most, so that patches and products take `bytes`; at least 1.
inline uint64_t LargestGroup(const ImageShape& shape, uint64_t bytes, uint64_t examples) {
  const uint64_t one = uint64_t{shape.patch() + shape.out_channels} * shape.out_area();
  return std::clamp<uint64_t>(bytes / (one * sizeof(float)), 1, examples);
}

// f(first sample, samples), group by group, all of about the same size.
template <typename F>
void ForEachGroup(uint64_t examples, uint64_t largest, F f) {
  const uint64_t groups = (examples + largest - 1) / largest;
  for (uint64_t i = 0; i < groups; ++i) {
    const uint64_t first = i * examples / groups;
    f(first, (i + 1) * examples / groups - first);
  }
}

}  // namespace monsoon::cuda
