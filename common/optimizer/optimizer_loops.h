// The optimizers' loops over n floats, compiled once per SIMD level
// (common/simd/simd.bzl). What they compute stands in optimizer.h; all levels
// give the same bits. The arrays do not overlap.
#pragma once

#include <cstddef>

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
