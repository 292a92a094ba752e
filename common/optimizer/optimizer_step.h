// OptimizerStep: one update by an optimizer, as numbers: for the loops of this process, and for
// whoever computes it elsewhere, on a GPU. optimizer_rules.h has the formulas. Defines no
// function: SIMD loops and nvcc include it.
#pragma once

#include <limits>

namespace monsoon {

// How one parameter moves. An optimizer has several where its slots, or its pushes, differ.
enum class OptimizerRule {
  kSgd,
  kMomentum,
  kAdagrad,
  kAdam,  // AdamW too
  kRmsProp,
  kRmsPropMomentum,
  kNesterov,
  kDelayedNesterov,
  kClosingNesterov,  // the push that ends a period of that
  kLion,
};
inline constexpr int kOptimizerRules = 10;

// Each rule reads those that its formula names.
struct OptimizerStep {
  OptimizerRule rule = OptimizerRule::kSgd;
  // Of all rules, what becomes of a gradient first.
  float clip = std::numeric_limits<float>::infinity();
  float weight_decay = 0.0f;

  float rate = 0.0f;      // under its schedule; Adam's is / (1 - beta1^t)
  float momentum = 0.0f;  // of what was there before
  float epsilon = 0.0f;
  float decay = 0.0f;  // AdamW's and Lion's, times the rate
  // Of a mean of gradients, and of one of their squares: what of it stays, and 1 - that.
  float beta1 = 0.0f, rest1 = 0.0f;
  float beta2 = 0.0f, rest2 = 0.0f;
  float root_scale = 1.0f;          // 1 / sqrt(1 - beta2^t)
  float part = 1.0f, ahead = 0.0f;  // Nesterov's: 1 / period, and what of b is added to that of g
};

}  // namespace monsoon
