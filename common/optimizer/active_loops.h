// The optimizers' loops of the SIMD level in use, and those of matrices.
#pragma once

#include "common/optimizer/matrix_loops.h"
#include "common/optimizer/optimizer_loops.h"
#include "common/simd/simd_level.h"

namespace monsoon {

inline const OptimizerLoops& ActiveOptimizerLoops() {
  return ActiveLoops(simd_baseline::kOptimizerLoops, simd_avx2::kOptimizerLoops,
                     simd_avx512::kOptimizerLoops);
}

inline const MatrixLoops& ActiveMatrixLoops() {
  return ActiveLoops(simd_baseline::kMatrixLoops, simd_avx2::kMatrixLoops,
                     simd_avx512::kMatrixLoops);
}

}  // namespace monsoon
