// The loops of vector_kernels.h over n elements, compiled once per SIMD level
// (common/simd/simd.bzl). All levels give the same bits. `out` and `sum` overlap
// no input.
#pragma once

#include <cstddef>

namespace monsoon {

struct VectorLoops {
  // out = factor * x, in double and rounded once.
  void (*scale)(size_t n, double factor, const float* x, float* out);
  // out = factor * x + y, in double and rounded once.
  void (*axpy)(size_t n, double factor, const float* x, const float* y, float* out);
  // out = x * y.
  void (*multiply)(size_t n, const float* x, const float* y, float* out);
  // lanes[i modulo 16] += x[i] * y[i] in double, in the order of i.
  void (*add_products)(size_t n, const float* x, const float* y, double* lanes);
  // sum += factor * x.
  void (*add_scaled)(size_t n, double factor, const float* x, double* sum);
  // out = x.
  void (*round)(size_t n, const double* x, float* out);
};

namespace simd_baseline {
extern const VectorLoops kVectorLoops;
}
namespace simd_avx2 {
extern const VectorLoops kVectorLoops;
}
namespace simd_avx512 {
extern const VectorLoops kVectorLoops;
}

}  // namespace monsoon
