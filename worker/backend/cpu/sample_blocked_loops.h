// The loops of SampleBlockedConv2d: convolution vectorised over the samples.
// Images lie as [block of samples][channel][row][column][sample], so that one
// vector holds one value of kBlockSamples samples. No channel count is ever
// padded, no tap at a border is computed in vain, and ReLU and pooling are plain
// loops.
//
// One for each SIMD level (simd.bzl): a vector is one register of AVX-512, two of AVX2,
// four of SSE2. With fused multiply-add where there is one, so AVX2 and AVX-512 give the
// same bits and the baseline others. All pointers start on a 64-byte line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monsoon::cpu {

// Samples of a block: the floats of one 64-byte line.
inline constexpr size_t kBlockSamples = 16;
// Filters (backward: input channels) that are computed together; packed
// weights are padded with zero to a multiple.
inline constexpr size_t kGroup = 5;

inline constexpr size_t Groups(size_t channels) { return (channels + kGroup - 1) / kGroup; }

// Stride 1, no padding.
struct SampleBlockedShape {
  size_t channels;  // of the input
  size_t height;
  size_t width;
  size_t filters;
  size_t kernel;
  size_t out_height;
  size_t out_width;
  size_t window;  // of the average pooling behind; 1: none
  bool relu;      // between the two
};

// One block of samples each. A plane is a channel's [row][column][sample].
struct SampleBlockedLoops {
  // kGroup planes of outputs. `weights` is [channel][row][column][kGroup].
  void (*forward)(const SampleBlockedShape& shape, const float* input, const float* weights,
                  const float* bias, float* output);
  // ReLU and pooling of one plane, and the bits of the outputs that pass, one
  // word of kBlockSamples bits each. NaN passes.
  void (*pool)(const SampleBlockedShape& shape, const float* output, float* pooled,
               uint16_t* passed);
  // The reverse: from the pooled plane's gradient to the output's. Returns in
  // `sum` the sum over the plane and the samples.
  void (*unpool)(const SampleBlockedShape& shape, const float* pooled_diff, const uint16_t* passed,
                 float* output_diff, float* sum);
  // Adds the weights' gradient to `sums`, [channel][row][column][kGroup][sample],
  // from the output's of kGroup planes.
  void (*backward_weights)(const SampleBlockedShape& shape, const float* input,
                           const float* output_diff, float* sums);
  // Planes of the input's gradient, `planes` <= kGroup, from that of all
  // filters' outputs. `weights` is [filter][row][column][kGroup].
  void (*backward_data)(const SampleBlockedShape& shape, const float* output_diff,
                        const float* weights, size_t planes, float* input_diff);
  // The sum of each group of kBlockSamples of `sums`.
  void (*sum_samples)(size_t groups, const float* sums, float* totals);
};

}  // namespace monsoon::cpu

namespace monsoon::simd_baseline {
extern const cpu::SampleBlockedLoops kSampleBlockedLoops;
}  // namespace monsoon::simd_baseline
namespace monsoon::simd_avx2 {
extern const cpu::SampleBlockedLoops kSampleBlockedLoops;
}  // namespace monsoon::simd_avx2
namespace monsoon::simd_avx512 {
extern const cpu::SampleBlockedLoops kSampleBlockedLoops;
}  // namespace monsoon::simd_avx512
