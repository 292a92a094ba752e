// Orthogonalize: the matrix of the same singular vectors whose singular values are all near 1, by
// the quintic Newton-Schulz iteration (Jordan et al. 2024, "Muon"; after Bernstein and Newhouse
// 2024, arXiv 2409.20325):
//   x = x / max(|x|, 1e-7), with the Frobenius norm; then `steps` times, with s = x x' of the
//   smaller side: x = a x + (b s + c s s) x, a = 3.4445, b = -4.775, c = 2.0315.
// After five steps the values are between 0.68 and 1.13 or so, but for those that were below about
// a thousandth of the norm. All is float32, but the norm, which is double.
//
// n being the smaller side and m the other, a step has n n m + n n n + 2 m n n operations. The bits
// depend neither on the SIMD level nor on where the arrays lie.
//
// Thread safety: pure functions of their arguments, in one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monsoon {

// Floats of scratch for a matrix: its own size, the square of its smaller side, and 504 KiB.
size_t OrthogonalizeScratch(size_t rows, size_t columns);

// Of `x`, which lies row by row and is replaced. A matrix of zeros stays as it is; what is not
// finite makes all of it NaN. `scratch` has as many floats as said above, or more.
void Orthogonalize(size_t rows, size_t columns, uint32_t steps, std::span<float> x,
                   std::span<float> scratch);

}  // namespace monsoon
