#include "common/optimizer/optimizer_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

// Written with conditionals that map to one minimum and one maximum.
template <bool kTransform>
float Transformed(const GradientTransform& transform, float g, float w) {
  if constexpr (kTransform) {
    const float below = g < transform.clip ? g : transform.clip;
    const float clipped = below > -transform.clip ? below : -transform.clip;
    return clipped + transform.weight_decay * w;
  } else {
    return g;
  }
}

template <bool kTransform>
void UpdateSgd(size_t n, GradientTransform transform, float rate, float* __restrict w,
               const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    w[i] -= rate * gi;
  }
}

template <bool kTransform>
void UpdateMomentum(size_t n, GradientTransform transform, float rate, float momentum,
                    float* __restrict w, float* __restrict v, const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float vi = momentum * v[i] + gi;
    v[i] = vi;
    w[i] -= rate * vi;
  }
}

// Memory sets the time, not the exact root and quotient: 20 bytes a parameter.
// Software prefetch made it slower, a root by rsqrt14 and Newton's method no
// faster.
template <bool kTransform>
void UpdateAdagrad(size_t n, GradientTransform transform, float rate, float epsilon,
                   float* __restrict w, float* __restrict h, const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float hi = h[i] + gi * gi;
    h[i] = hi;
    w[i] -= rate * gi / (__builtin_sqrtf(hi) + epsilon);
  }
}

void Sgd(size_t n, GradientTransform transform, float rate, float* w, const float* g) {
  (transform.identity ? UpdateSgd<false> : UpdateSgd<true>)(n, transform, rate, w, g);
}

void Momentum(size_t n, GradientTransform transform, float rate, float momentum, float* w, float* v,
              const float* g) {
  (transform.identity ? UpdateMomentum<false> : UpdateMomentum<true>)(n, transform, rate, momentum,
                                                                      w, v, g);
}

void Adagrad(size_t n, GradientTransform transform, float rate, float epsilon, float* w, float* h,
             const float* g) {
  (transform.identity ? UpdateAdagrad<false> : UpdateAdagrad<true>)(n, transform, rate, epsilon, w,
                                                                    h, g);
}

}  // namespace

const OptimizerLoops kOptimizerLoops = {Sgd, Momentum, Adagrad};

}  // namespace monsoon::SIMD_NAMESPACE
