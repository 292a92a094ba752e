// Multiply: products of matrices of float32 in the host's memory, blocked for its caches: the few
// that Muon's iteration needs (newton_schulz.h). Each element is summed in the order of k, so that
// its bits depend neither on the SIMD level nor on the blocks, nor on where the arrays lie.
//
// Thread safety: a pure function of its arguments, in one thread.
#pragma once

#include <cstddef>
#include <span>

namespace monsoon {

// Floats of the packed blocks: 504 KiB, whatever the matrices.
inline constexpr size_t kProductDepth = 192;
inline constexpr size_t kProductRows = 144;
inline constexpr size_t kProductColumns = 512;
inline constexpr size_t kProductScratch = kProductDepth * (kProductRows + kProductColumns);

// c = a b, rows x columns, with `inner` products in each sum. All lie row by row, without gaps.
struct Product {
  size_t rows = 0;
  size_t columns = 0;
  size_t inner = 0;
  const float* a = nullptr;
  bool a_transposed = false;  // a lies as inner x rows
  const float* b = nullptr;   // inner x columns
  // c is symmetric: only one half of it is computed.
  bool symmetric = false;
  float* c = nullptr;  // overlaps neither a nor b
};

// `scratch` has kProductScratch floats at least, which are not the matrices'.
void Multiply(const Product& product, std::span<float> scratch);

// to, columns x rows, = the transpose of from, rows x columns.
void Transpose(size_t rows, size_t columns, const float* from, float* to);

}  // namespace monsoon
