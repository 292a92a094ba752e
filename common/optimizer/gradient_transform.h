// What the kernels share: the transform of a job's gradients, and the loops of
// the SIMD level in use.
#pragma once

#include <limits>

#include "common/optimizer/optimizer_loops.h"
#include "common/optimizer/optimizer_step.h"
#include "common/simd/simd_level.h"
#include "proto/job.pb.h"

namespace monsoon {

// clip_value and weight_decay of `optimizer`; 0 stands for neither.
inline GradientTransform MakeGradientTransform(const Optimizer& optimizer) {
  GradientTransform transform = {};
  transform.identity = optimizer.clip_value() == 0.0 && optimizer.weight_decay() == 0.0;
  transform.clip = optimizer.clip_value() > 0.0 ? static_cast<float>(optimizer.clip_value())
                                                : std::numeric_limits<float>::infinity();
  transform.weight_decay = static_cast<float>(optimizer.weight_decay());
  return transform;
}

inline OptimizerStep MakeStep(OptimizerStep::Kind kind, float rate,
                              const GradientTransform& transform) {
  OptimizerStep step;
  step.kind = kind;
  step.rate = rate;
  step.clip = transform.clip;
  step.weight_decay = transform.weight_decay;
  return step;
}

inline const OptimizerLoops& ActiveOptimizerLoops() {
  return ActiveLoops(simd_baseline::kOptimizerLoops, simd_avx2::kOptimizerLoops,
                     simd_avx512::kOptimizerLoops);
}

}  // namespace monsoon
