// OptimizerStep: one update by an optimizer, as numbers: for whoever computes it
// elsewhere than in this process's loops, on a GPU. The formulas stand in optimizer.h.
#pragma once

#include <limits>

namespace monsoon {

struct OptimizerStep {
  enum class Kind { kSgd, kMomentum, kAdagrad };
  Kind kind = Kind::kSgd;
  float rate = 0.0f;      // rate(k)
  float momentum = 0.0f;  // momentum only
  float epsilon = 0.0f;   // adagrad only
  float clip = std::numeric_limits<float>::infinity();
  float weight_decay = 0.0f;
};

}  // namespace monsoon
