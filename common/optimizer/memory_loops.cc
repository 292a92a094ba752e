#include "common/optimizer/memory_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

void Sums(size_t n, float* __restrict w, float* __restrict h, const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    h[i] += g[i];
    w[i] -= g[i];
  }
}

void Squares(size_t n, float rate, float* __restrict w, float* __restrict h,
             const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    h[i] += g[i] * g[i];
    w[i] -= rate * g[i];
  }
}

void Average(size_t n, float rate, float* __restrict w, float* __restrict h,
             const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    const float hi = 0.5f * h[i] + g[i];
    h[i] = hi;
    w[i] -= rate * hi;
  }
}

void Averages(size_t n, float rate, float* __restrict w, float* __restrict h, float* __restrict v,
              const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    const float hi = 0.5f * h[i] + g[i];
    h[i] = hi;
    v[i] = 0.5f * v[i] + g[i];
    w[i] -= rate * hi;
  }
}

}  // namespace

const MemoryLoops kMemoryLoops = {Sums, Squares, Average, Averages};

}  // namespace monsoon::SIMD_NAMESPACE
