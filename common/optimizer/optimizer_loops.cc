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

// What becomes of the distance that a parameter moves.
enum class Record { kNothing, kSet, kAdd };

template <Record kRecord>
void Move(float by, size_t i, float* __restrict w, float* __restrict moved) {
  w[i] -= by;
  if constexpr (kRecord == Record::kSet) {
    moved[i] = -by;
  } else if constexpr (kRecord == Record::kAdd) {
    moved[i] -= by;
  }
}

template <bool kTransform, Record kRecord>
void UpdateSgd(size_t n, GradientTransform transform, float rate, float* __restrict w,
               const float* __restrict g, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    Move<kRecord>(rate * gi, i, w, moved);
  }
}

template <bool kTransform, Record kRecord>
void UpdateMomentum(size_t n, GradientTransform transform, float rate, float momentum,
                    float* __restrict w, float* __restrict v, const float* __restrict g,
                    float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float vi = momentum * v[i] + gi;
    v[i] = vi;
    Move<kRecord>(rate * vi, i, w, moved);
  }
}

// Memory sets the time, not the exact root and quotient: 20 bytes a parameter.
// Software prefetch made it slower, a root by rsqrt14 and Newton's method no
// faster.
template <bool kTransform, Record kRecord>
void UpdateAdagrad(size_t n, GradientTransform transform, float rate, float epsilon,
                   float* __restrict w, float* __restrict h, const float* __restrict g,
                   float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float hi = h[i] + gi * gi;
    h[i] = hi;
    Move<kRecord>(rate * gi / (__builtin_sqrtf(hi) + epsilon), i, w, moved);
  }
}

template <bool kTransform, Record kRecord>
void UpdateAdam(size_t n, GradientTransform transform, AdamStep step, float* __restrict w,
                float* __restrict m, float* __restrict v, const float* __restrict g,
                float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float mi = step.beta1 * m[i] + step.rest1 * gi;
    const float vi = step.beta2 * v[i] + step.rest2 * (gi * gi);
    m[i] = mi;
    v[i] = vi;
    const float root = __builtin_sqrtf(vi) * step.root_scale;
    Move<kRecord>(step.decay * w[i] + step.rate * mi / (root + step.epsilon), i, w, moved);
  }
}

template <bool kTransform, Record kRecord>
void UpdateRmsProp(size_t n, GradientTransform transform, RmsPropStep step, float* __restrict w,
                   float* __restrict v, const float* __restrict g, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float vi = step.alpha * v[i] + step.rest * (gi * gi);
    v[i] = vi;
    Move<kRecord>(step.rate * gi / (__builtin_sqrtf(vi) + step.epsilon), i, w, moved);
  }
}

template <bool kTransform, Record kRecord>
void UpdateRmsPropMomentum(size_t n, GradientTransform transform, RmsPropStep step,
                           float* __restrict w, float* __restrict v, float* __restrict b,
                           const float* __restrict g, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float vi = step.alpha * v[i] + step.rest * (gi * gi);
    const float bi = step.momentum * b[i] + gi / (__builtin_sqrtf(vi) + step.epsilon);
    v[i] = vi;
    b[i] = bi;
    Move<kRecord>(step.rate * bi, i, w, moved);
  }
}

template <bool kTransform, Record kRecord>
void UpdateNesterov(size_t n, GradientTransform transform, NesterovStep step, float* __restrict w,
                    float* __restrict b, const float* __restrict g, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float bi = step.momentum * b[i] + gi;
    b[i] = bi;
    Move<kRecord>(step.rate * (gi + step.ahead * bi), i, w, moved);
  }
}

template <bool kCloses, bool kTransform, Record kRecord>
void UpdateDelayedNesterov(size_t n, GradientTransform transform, NesterovStep step,
                           float* __restrict w, float* __restrict b, float* __restrict sum,
                           const float* __restrict g, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(transform, g[i], w[i]);
    const float all = sum[i] + gi;
    const float bi = kCloses ? step.momentum * b[i] + step.part * all : b[i];
    b[i] = bi;
    sum[i] = kCloses ? 0.0f : all;
    Move<kRecord>(step.rate * (step.part * gi + step.ahead * bi), i, w, moved);
  }
}

template <Record kRecord>
void UpdateAverage(size_t n, float share, float keep, float* __restrict w, float* __restrict d,
                   const float* __restrict step, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float next = keep * (d[i] + share * step[i]);
    const float by = d[i] - next;
    d[i] = next;
    w[i] += by;
    if constexpr (kRecord == Record::kSet) {
      moved[i] = step[i] + by;
    } else if constexpr (kRecord == Record::kAdd) {
      moved[i] += step[i] + by;
    }
  }
}

// Calls `loop` with the constants for the transform and for what is recorded.
template <typename Loop>
void Dispatch(const GradientTransform& transform, const MoveRecord& record, Loop loop) {
  const auto with_record = [&]<bool kTransform>() {
    if (record.moved == nullptr) {
      loop.template operator()<kTransform, Record::kNothing>();
    } else if (record.fresh) {
      loop.template operator()<kTransform, Record::kSet>();
    } else {
      loop.template operator()<kTransform, Record::kAdd>();
    }
  };
  if (transform.identity) {
    with_record.template operator()<false>();
  } else {
    with_record.template operator()<true>();
  }
}

void Sgd(size_t n, GradientTransform transform, float rate, float* w, const float* g,
         MoveRecord record) {
  Dispatch(transform, record, [&]<bool kTransform, Record kRecord>() {
    UpdateSgd<kTransform, kRecord>(n, transform, rate, w, g, record.moved);
  });
}

void Momentum(size_t n, GradientTransform transform, float rate, float momentum, float* w, float* v,
              const float* g, MoveRecord record) {
  Dispatch(transform, record, [&]<bool kTransform, Record kRecord>() {
    UpdateMomentum<kTransform, kRecord>(n, transform, rate, momentum, w, v, g, record.moved);
  });
}

void Adagrad(size_t n, GradientTransform transform, float rate, float epsilon, float* w, float* h,
             const float* g, MoveRecord record) {
  Dispatch(transform, record, [&]<bool kTransform, Record kRecord>() {
    UpdateAdagrad<kTransform, kRecord>(n, transform, rate, epsilon, w, h, g, record.moved);
  });
}

void Adam(size_t n, GradientTransform transform, AdamStep step, float* w, float* m, float* v,
          const float* g, MoveRecord record) {
  Dispatch(transform, record, [&]<bool kTransform, Record kRecord>() {
    UpdateAdam<kTransform, kRecord>(n, transform, step, w, m, v, g, record.moved);
  });
}

void RmsProp(size_t n, GradientTransform transform, RmsPropStep step, float* w, float* v, float* b,
             const float* g, MoveRecord record) {
  Dispatch(transform, record, [&]<bool kTransform, Record kRecord>() {
    if (b == nullptr) {
      UpdateRmsProp<kTransform, kRecord>(n, transform, step, w, v, g, record.moved);
    } else {
      UpdateRmsPropMomentum<kTransform, kRecord>(n, transform, step, w, v, b, g, record.moved);
    }
  });
}

void Nesterov(size_t n, GradientTransform transform, NesterovStep step, float* w, float* b,
              float* sum, const float* g, MoveRecord record) {
  Dispatch(transform, record, [&]<bool kTransform, Record kRecord>() {
    if (sum == nullptr) {
      UpdateNesterov<kTransform, kRecord>(n, transform, step, w, b, g, record.moved);
    } else if (step.closes) {
      UpdateDelayedNesterov<true, kTransform, kRecord>(n, transform, step, w, b, sum, g,
                                                       record.moved);
    } else {
      UpdateDelayedNesterov<false, kTransform, kRecord>(n, transform, step, w, b, sum, g,
                                                        record.moved);
    }
  });
}

void Average(size_t n, float share, float keep, float* w, float* d, const float* step,
             MoveRecord record) {
  Dispatch({.identity = true}, record, [&]<bool kTransform, Record kRecord>() {
    UpdateAverage<kRecord>(n, share, keep, w, d, step, record.moved);
  });
}

}  // namespace

const OptimizerLoops kOptimizerLoops = {Sgd, Momentum, Adagrad, Adam, RmsProp, Nesterov, Average};

}  // namespace monsoon::SIMD_NAMESPACE
