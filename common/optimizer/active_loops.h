// The optimizers' loops of the SIMD level in use.
#pragma once

#include "common/optimizer/optimizer_loops.h"
#include "common/simd/simd_level.h"

namespace monsoon {

inline const OptimizerLoops& ActiveOptimizerLoops() {
  return ActiveLoops(simd_baseline::kOptimizerLoops, simd_avx2::kOptimizerLoops,
                     simd_avx512::kOptimizerLoops);
}

}  // namespace monsoon
