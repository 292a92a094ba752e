// What optimizer_benchmark compares Adagrad with: loops in place that read w, h
// and g and write w and h, 20 bytes a parameter, and have nothing slower than a
// multiplication. Compiled once per SIMD level, as the optimizers.
#pragma once

#include <cstddef>

namespace monsoon {

struct MemoryLoops {
  // h += g; w -= g.
  void (*sums)(size_t n, float* w, float* h, const float* g);
  // h += g * g; w -= rate * g: Adagrad without root and quotient.
  void (*squares)(size_t n, float rate, float* w, float* h, const float* g);
  // h = 0.5 * h + g; w -= rate * h: an average.
  void (*average)(size_t n, float rate, float* w, float* h, const float* g);
  // The same with another one, v = 0.5 * v + g, beside it: Adam's 28 bytes a parameter.
  void (*averages)(size_t n, float rate, float* w, float* h, float* v, const float* g);
};

namespace simd_baseline {
extern const MemoryLoops kMemoryLoops;
}
namespace simd_avx2 {
extern const MemoryLoops kMemoryLoops;
}
namespace simd_avx512 {
extern const MemoryLoops kMemoryLoops;
}

}  // namespace monsoon
