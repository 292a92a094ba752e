// The formulas of the optimizers, each once: Rule<rule>::Back moves the state of one parameter,
// w with its gradient g (clipped and decayed), and returns how far w goes back. The loops of all
// SIMD levels and the GPU's operation compute them in this order, without a fused product and
// sum, and so to the same bits. What they mean stands beside each optimizer in
// proto/optimizer.proto.
//
// `first` and `second` are the slots of the state, kSlots of them, null where there is none. All is
// inlined always: no copy of a function that was compiled for AVX-512 may be the one that a linker
// keeps (common/simd/simd.bzl).
#pragma once

#include <cstddef>

#include "common/optimizer/optimizer_step.h"

#ifdef __CUDACC__
#define MONSOON_RULE __host__ __device__ __forceinline__
#define MONSOON_ROOT(x) sqrtf(x)
#else
#define MONSOON_RULE inline __attribute__((always_inline))
#define MONSOON_ROOT(x) __builtin_sqrtf(x)
#endif

namespace monsoon {

template <OptimizerRule rule>
struct Rule;

template <>
struct Rule<OptimizerRule::kSgd> {
  static constexpr int kSlots = 0;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    return step.rate * g;
  }
};

template <>
struct Rule<OptimizerRule::kMomentum> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    const float v = step.momentum * first[i] + g;
    first[i] = v;
    return step.rate * v;
  }
};

// Memory sets the time, not the exact root and quotient: 20 bytes a parameter. Software prefetch
// made it slower, a root by rsqrt14 and Newton's method no faster.
template <>
struct Rule<OptimizerRule::kAdagrad> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    const float h = first[i] + g * g;
    first[i] = h;
    return step.rate * g / (MONSOON_ROOT(h) + step.epsilon);
  }
};

template <>
struct Rule<OptimizerRule::kAdam> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    const float m = step.beta1 * first[i] + step.rest1 * g;
    const float v = step.beta2 * second[i] + step.rest2 * (g * g);
    first[i] = m;
    second[i] = v;
    const float root = MONSOON_ROOT(v) * step.root_scale;
    return step.decay * w + step.rate * m / (root + step.epsilon);
  }
};

template <>
struct Rule<OptimizerRule::kRmsProp> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    const float v = step.beta2 * first[i] + step.rest2 * (g * g);
    first[i] = v;
    return step.rate * g / (MONSOON_ROOT(v) + step.epsilon);
  }
};

template <>
struct Rule<OptimizerRule::kRmsPropMomentum> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    const float v = step.beta2 * first[i] + step.rest2 * (g * g);
    const float b = step.momentum * second[i] + g / (MONSOON_ROOT(v) + step.epsilon);
    first[i] = v;
    second[i] = b;
    return step.rate * b;
  }
};

template <>
struct Rule<OptimizerRule::kNesterov> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    const float b = step.momentum * first[i] + g;
    first[i] = b;
    return step.rate * (g + step.ahead * b);
  }
};

template <>
struct Rule<OptimizerRule::kDelayedNesterov> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    second[i] = second[i] + g;
    return step.rate * (step.part * g + step.ahead * first[i]);
  }
};

template <>
struct Rule<OptimizerRule::kClosingNesterov> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, size_t i, float w, float g,
                                 float* first, float* second) {
    const float sum = second[i] + g;
    const float b = step.momentum * first[i] + step.part * sum;
    first[i] = b;
    second[i] = 0.0f;
    return step.rate * (step.part * g + step.ahead * b);
  }
};

// That of step.rule, which must be one of kOptimizerRules.
template <int rule = 0>
MONSOON_RULE float BackByRule(const OptimizerStep& step, size_t i, float w, float g, float* first,
                              float* second) {
  if constexpr (rule + 1 < kOptimizerRules) {
    if (static_cast<int>(step.rule) != rule) {
      return BackByRule<rule + 1>(step, i, w, g, first, second);
    }
  }
  return Rule<static_cast<OptimizerRule>(rule)>::Back(step, i, w, g, first, second);
}

// kSlots of `of`, one of kOptimizerRules.
template <int rule = 0>
constexpr int RuleSlots(OptimizerRule of) {
  if constexpr (rule + 1 < kOptimizerRules) {
    if (static_cast<int>(of) != rule) {
      return RuleSlots<rule + 1>(of);
    }
  }
  return Rule<static_cast<OptimizerRule>(rule)>::kSlots;
}

}  // namespace monsoon
