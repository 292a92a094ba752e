// The optimizers' loops over n floats, compiled once per SIMD level
// (common/simd/simd.bzl). What they compute stands in optimizer_rules.h; all levels
// give the same bits. The arrays do not overlap.
#pragma once

#include <cstddef>

#include "common/optimizer/optimizer_step.h"

namespace monsoon {

// Where a loop records how far each parameter moved.
struct MoveRecord {
  float* moved;  // null: nowhere
  bool fresh;    // set, not added to
};

struct OptimizerLoops {
  // By OptimizerRule. `first` and `second` are null where the rule has no such slot.
  void (*update[kOptimizerRules])(size_t n, const OptimizerStep& step, float* w, float* first,
                                  float* second, const float* g, MoveRecord record);
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
