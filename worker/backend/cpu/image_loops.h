// Loops of layers of images that lie channels last, one for each SIMD level (simd.bzl). With
// fused multiply-add where there is one, so AVX2 and AVX-512 may give other bits than the baseline.
#pragma once

#include <cstddef>

namespace monsoon::cpu {

// Matrices [rows, columns], row-major, and one value for each column of what is named after one.
// All pointers are of different memory.
struct ColumnLoops {
  // Adds the sums over the rows.
  void (*add)(size_t rows, size_t columns, const float* x, float* sums);
  // Those of (x - mean)^2.
  void (*add_squares)(size_t rows, size_t columns, const float* x, const float* mean, float* sums);
  // y = (x - mean) scale + shift, and with `relu` what is below 0 becomes 0. NaN stays.
  void (*normalise)(size_t rows, size_t columns, const float* x, const float* mean,
                    const float* scale, const float* shift, bool relu, float* y);
  // Sets `diff` to zero where y is not above zero. NaN passes.
  void (*mask)(size_t floats, const float* y, float* diff);
  // Adds the sums over the rows of diff and of diff (x - mean).
  void (*add_products)(size_t rows, size_t columns, const float* x, const float* mean,
                       const float* diff, float* sums, float* products);
  // in_diff = diff scale + (x - mean) slope + shift.
  void (*denormalise)(size_t rows, size_t columns, const float* x, const float* mean,
                      const float* diff, const float* scale, const float* slope, const float* shift,
                      float* in_diff);
};

// Images [pixels, channels], and one value for each pixel of what is named after one.
struct PixelLoops {
  // sums = the sum over the channels.
  void (*sum)(size_t pixels, size_t channels, const float* x, float* sums);
  // v = x - mean, and the sums of v^2.
  void (*subtract)(size_t pixels, size_t channels, const float* x, const float* mean, float* v,
                   float* squares);
  // sums = the sum of x y.
  void (*dot)(size_t pixels, size_t channels, const float* x, const float* y, float* sums);
  // y = y factor.
  void (*scale)(size_t pixels, size_t channels, const float* factor, float* y);
  // y = y - by.
  void (*lower)(size_t pixels, size_t channels, const float* by, float* y);
  // diff = diff factor + y slope.
  void (*combine)(size_t pixels, size_t channels, const float* factor, const float* y,
                  const float* slope, float* diff);
  // The sums of weights[i] times what is i - half away, to both sides and up and down, zero
  // outside. `scratch` has height * width + width + 2 half floats; out may be in.
  void (*blur)(size_t height, size_t width, size_t half, const float* weights, const float* in,
               float* scratch, float* out);
};

}  // namespace monsoon::cpu

#define MONSOON_IMAGE_LOOPS(level)            \
  namespace monsoon::level {                  \
  extern const cpu::ColumnLoops kColumnLoops; \
  extern const cpu::PixelLoops kPixelLoops;   \
  }
MONSOON_IMAGE_LOOPS(simd_baseline)
MONSOON_IMAGE_LOOPS(simd_avx2)
MONSOON_IMAGE_LOOPS(simd_avx512)
#undef MONSOON_IMAGE_LOOPS
