#include "tests/benchmarks/in_place.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstddef>

namespace monsoon {
namespace {

constexpr float kRate = 0.01f;

// One loop, compiled for several instruction sets: an attribute of a function
// does not reach a function that it calls, so the body is repeated.
#define MONSOON_IN_PLACE_BODY                  \
  float* __restrict parameter = w.data();      \
  float* __restrict sum = state.data();        \
  const float* __restrict gradient = g.data(); \
  const size_t size = g.size();                \
  for (size_t i = 0; i < size; ++i) {          \
    sum[i] += gradient[i] * gradient[i];       \
    parameter[i] -= kRate * gradient[i];       \
  }

void Baseline(std::span<float> w, std::span<float> state, std::span<const float> g) {
  MONSOON_IN_PLACE_BODY
}

#ifdef __x86_64__
__attribute__((target("avx2"))) void Avx2(std::span<float> w, std::span<float> state,
                                          std::span<const float> g) {
  MONSOON_IN_PLACE_BODY
}

// By hand: compilers like narrower vectors if not asked.
__attribute__((target("avx512f"))) void Avx512(std::span<float> w, std::span<float> state,
                                               std::span<const float> g) {
  constexpr size_t kLanes = 16;
  const __m512 rate = _mm512_set1_ps(kRate);
  size_t i = 0;
  for (; i + kLanes <= g.size(); i += kLanes) {
    const __m512 gradient = _mm512_loadu_ps(&g[i]);
    _mm512_storeu_ps(&state[i], _mm512_fmadd_ps(gradient, gradient, _mm512_loadu_ps(&state[i])));
    _mm512_storeu_ps(&w[i], _mm512_fnmadd_ps(rate, gradient, _mm512_loadu_ps(&w[i])));
  }
  Baseline(w.subspan(i), state.subspan(i), g.subspan(i));
}
#endif

}  // namespace

std::vector<InPlaceKernel> InPlaceKernels() {
  std::vector<InPlaceKernel> kernels = {{"baseline", Baseline}};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    kernels.push_back({"avx2", Avx2});
  }
  if (__builtin_cpu_supports("avx512f")) {
    kernels.push_back({"avx512", Avx512});
  }
#endif
  return kernels;
}

}  // namespace monsoon
