// The formulas of the optimizers, each once: Rule<rule>::Back moves the state of one parameter,
// and returns how far that goes back. The loops of all SIMD levels and the GPU's operation
// compute them in this order, without a fused product and sum, and so to the same bits. What they
// mean stands beside each optimizer in proto/optimizer.proto.
//
// All is inlined always: no copy of a function that was compiled for AVX-512 may be the one that
// a linker keeps (common/simd/simd.bzl).
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

struct Parameter {
  size_t i;
  float w;
  float g;  // its gradient, clipped and decayed
  // The slots of the state, kSlots of them; null where there is none. This parameter's is [i].
  float* first;
  float* second;
};

template <OptimizerRule rule>
struct Rule;

template <>
struct Rule<OptimizerRule::kSgd> {
  static constexpr int kSlots = 0;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    return step.rate * at.g;
  }
};

template <>
struct Rule<OptimizerRule::kMomentum> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float v = step.momentum * at.first[at.i] + at.g;
    at.first[at.i] = v;
    return step.rate * v;
  }
};

// Memory sets the time, not the exact root and quotient: 20 bytes a parameter. Software prefetch
// made it slower, a root by rsqrt14 and Newton's method no faster.
template <>
struct Rule<OptimizerRule::kAdagrad> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float h = at.first[at.i] + at.g * at.g;
    at.first[at.i] = h;
    return step.rate * at.g / (MONSOON_ROOT(h) + step.epsilon);
  }
};

template <>
struct Rule<OptimizerRule::kAdam> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float m = step.beta1 * at.first[at.i] + step.rest1 * at.g;
    const float v = step.beta2 * at.second[at.i] + step.rest2 * (at.g * at.g);
    at.first[at.i] = m;
    at.second[at.i] = v;
    const float root = MONSOON_ROOT(v) * step.root_scale;
    return step.decay * at.w + step.rate * m / (root + step.epsilon);
  }
};

template <>
struct Rule<OptimizerRule::kRmsProp> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float v = step.beta2 * at.first[at.i] + step.rest2 * (at.g * at.g);
    at.first[at.i] = v;
    return step.rate * at.g / (MONSOON_ROOT(v) + step.epsilon);
  }
};

template <>
struct Rule<OptimizerRule::kRmsPropMomentum> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float v = step.beta2 * at.first[at.i] + step.rest2 * (at.g * at.g);
    const float b = step.momentum * at.second[at.i] + at.g / (MONSOON_ROOT(v) + step.epsilon);
    at.first[at.i] = v;
    at.second[at.i] = b;
    return step.rate * b;
  }
};

template <>
struct Rule<OptimizerRule::kNesterov> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float b = step.momentum * at.first[at.i] + at.g;
    at.first[at.i] = b;
    return step.rate * (at.g + step.ahead * b);
  }
};

template <>
struct Rule<OptimizerRule::kDelayedNesterov> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    at.second[at.i] = at.second[at.i] + at.g;
    return step.rate * (step.part * at.g + step.ahead * at.first[at.i]);
  }
};

template <>
struct Rule<OptimizerRule::kClosingNesterov> {
  static constexpr int kSlots = 2;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float sum = at.second[at.i] + at.g;
    const float b = step.momentum * at.first[at.i] + step.part * sum;
    at.first[at.i] = b;
    at.second[at.i] = 0.0f;
    return step.rate * (step.part * at.g + step.ahead * b);
  }
};

// What is not finite passes the sign, so that it is seen.
template <>
struct Rule<OptimizerRule::kLion> {
  static constexpr int kSlots = 1;
  static MONSOON_RULE float Back(const OptimizerStep& step, const Parameter& at) {
    const float m = at.first[at.i];
    const float c = step.beta1 * m + step.rest1 * at.g;
    at.first[at.i] = step.beta2 * m + step.rest2 * at.g;
    const float sign = c > 0.0f ? 1.0f : (c < 0.0f ? -1.0f : c);
    return step.decay * at.w + step.rate * sign;
  }
};

// That of step.rule, which must be one of kOptimizerRules.
template <int rule = 0>
MONSOON_RULE float BackByRule(const OptimizerStep& step, const Parameter& at) {
  if constexpr (rule + 1 < kOptimizerRules) {
    if (static_cast<int>(step.rule) != rule) {
      return BackByRule<rule + 1>(step, at);
    }
  }
  return Rule<static_cast<OptimizerRule>(rule)>::Back(step, at);
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
