// Kernels of the vector operations, one stripe at a time. Elements are computed
// in double and rounded once to float32; sums of products accumulate in double.
//
// The bits are part of the contract: no contraction, and a sum of products has
// kDotLanes partial sums (element i of the stripe belongs to lane i modulo
// kDotLanes), added in the order of the lanes. That leaves room for SIMD
// (simd_level.h chooses the instructions) and depends neither on the machine nor
// on how a stripe is cut into blocks.
//
// Pure; all spans of a call have one length; `out` overlaps no input.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace monsoon {

inline constexpr size_t kDotLanes = 16;

// The partial sums of one dot product.
using DotLanes = std::array<double, kDotLanes>;

double SumLanes(const DotLanes& lanes);

// out = factor * x.
void ScaleVector(double factor, std::span<const float> x, std::span<float> out);

// out = factor * x + y.
void AxpyVector(double factor, std::span<const float> x, std::span<const float> y,
                std::span<float> out);

// out = x * y, element by element.
void MultiplyVectors(std::span<const float> x, std::span<const float> y, std::span<float> out);

// out = in where low <= |by| < high, else 0.
void SelectVector(std::span<const float> in, std::span<const float> by, double low, double high,
                  std::span<float> out);

// The largest float below `high`.
float LargestBelow(double high);

double DotVectors(std::span<const float> x, std::span<const float> y);

// out = sum of factor_k * in_k, added in the order of k beginning with 0, and
// dots[k] = out . dot_with_k of the rounded `out`, the bits of DotVectors, in
// one pass over all vectors. A dot_with_k may be `out`.
void CombineVectors(std::span<const double> factors, std::span<const float* const> in,
                    std::span<const float* const> dot_with, std::span<float> out,
                    std::span<double> dots);

// dots[i * columns.size() + j] = row_i . column_j of `size` floats, the bits of
// DotVectors, in one pass.
void GramVectors(std::span<const float* const> rows, std::span<const float* const> columns,
                 size_t size, std::span<double> dots);

}  // namespace monsoon
