// The loops of Muon (muon.h) over the floats of matrices, compiled once per SIMD level
// (common/simd/simd.bzl). All levels give the same bits: each element is summed by itself, in the
// order of k, without a fused product and sum. The arrays do not overlap.
#pragma once

#include <cstddef>

#include "common/optimizer/optimizer_loops.h"

namespace monsoon {

// Of the part of a product that is summed in registers. With AVX-512 that is 24 registers of sums
// of 32; at lower levels the tile is made piece by piece.
inline constexpr size_t kTileRows = 12;
inline constexpr size_t kTileColumns = 32;

// Partial sums of MatrixLoops::squares.
inline constexpr size_t kSquareSums = 16;

struct MatrixLoops {
  // c[i][j] += the sum over k < depth of a[k][i] b[k][j], or `fresh` = that, for a whole tile. a
  // and b are packed: kTileRows and kTileColumns floats for each k. Rows of c are `stride` apart.
  void (*tile)(size_t depth, const float* a, const float* b, float* c, size_t stride, bool fresh);
  // Adds the squares of x to `sums`, those of x[i] to sums[i % kSquareSums].
  void (*squares)(size_t n, const float* x, double* sums);
  // m = momentum * m + g; u = g + momentum * m, or without `nesterov` m.
  void (*average)(size_t n, float momentum, bool nesterov, const float* g, float* m, float* u);
  // x = x / by, divided in double.
  void (*divide)(size_t n, double by, float* x);
  // x = a * x + b * y.
  void (*mix)(size_t n, float a, float* x, float b, const float* y);
  // w = w - (decay * w + rate * x).
  void (*move)(size_t n, float decay, float rate, const float* x, float* w, MoveRecord record);
};

namespace simd_baseline {
extern const MatrixLoops kMatrixLoops;
}
namespace simd_avx2 {
extern const MatrixLoops kMatrixLoops;
}
namespace simd_avx512 {
extern const MatrixLoops kMatrixLoops;
}

}  // namespace monsoon
