// OptimizerStep: one update by an optimizer, as numbers: for whoever computes it
// elsewhere than in this process's loops, on a GPU. The formulas stand in optimizer.h.
#pragma once

#include <limits>

#include "common/optimizer/step_constants.h"

namespace monsoon {

struct OptimizerStep {
  enum class Kind { kSgd, kMomentum, kAdagrad, kAdam, kRmsProp, kNesterov };  // kAdam: AdamW too
  Kind kind = Kind::kSgd;
  float rate = 0.0f;      // rate(k)
  float momentum = 0.0f;  // momentum only
  float epsilon = 0.0f;   // adagrad only
  float clip = std::numeric_limits<float>::infinity();
  float weight_decay = 0.0f;
  AdamStep adam = {};  // these of their kinds only, rates included
  RmsPropStep rms_prop = {};
  NesterovStep nesterov = {};
};

}  // namespace monsoon
