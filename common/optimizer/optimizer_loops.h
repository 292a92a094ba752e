// The optimizers' loops over n floats, compiled once per SIMD level
// (common/simd/simd.bzl). What they compute stands in optimizer.h; all levels
// give the same bits. The arrays do not overlap.
#pragma once

#include <cstddef>

#include "common/optimizer/step_constants.h"

namespace monsoon {

// What every optimizer does to a gradient first: clip by value, then add the
// weight decay.
struct GradientTransform {
  bool identity;  // neither of both
  float clip;     // positive
  float weight_decay;
};

// Where a loop records how far each parameter moved.
struct MoveRecord {
  float* moved;  // null: nowhere
  bool fresh;    // set, not added to
};

struct OptimizerLoops {
  void (*sgd)(size_t n, GradientTransform transform, float rate, float* w, const float* g,
              MoveRecord record);
  void (*momentum)(size_t n, GradientTransform transform, float rate, float momentum, float* w,
                   float* v, const float* g, MoveRecord record);
  void (*adagrad)(size_t n, GradientTransform transform, float rate, float epsilon, float* w,
                  float* h, const float* g, MoveRecord record);
  void (*adam)(size_t n, GradientTransform transform, AdamStep step, float* w, float* m, float* v,
               const float* g, MoveRecord record);
  // `b` is null without momentum.
  void (*rms_prop)(size_t n, GradientTransform transform, RmsPropStep step, float* w, float* v,
                   float* b, const float* g, MoveRecord record);
  // `sum` is null with a period of 1.
  void (*nesterov)(size_t n, GradientTransform transform, NesterovStep step, float* w, float* b,
                   float* sum, const float* g, MoveRecord record);
  // After the optimizer inside has moved w by `step` (average.h): d' = keep (d + share step),
  // w += d - d'. Records both moves.
  void (*average)(size_t n, float share, float keep, float* w, float* d, const float* step,
                  MoveRecord record);
};

namespace simd_baseline {
extern const OptimizerLoops kOptimizerLoops;
}
namespace simd_avx2 {
extern const OptimizerLoops kOptimizerLoops;
}
namespace simd_avx512 {
extern const OptimizerLoops kOptimizerLoops;
}

}  // namespace monsoon
