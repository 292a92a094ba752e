// SequenceLoops of the level in use.
#pragma once

#include "common/simd/simd_level.h"
#include "worker/backend/cpu/sequence_loops.h"

namespace monsoon::cpu {

inline const SequenceLoops& ActiveSequenceLoops() {
  return ActiveLoops(simd_baseline::kSequenceLoops, simd_avx2::kSequenceLoops,
                     simd_avx512::kSequenceLoops);
}

}  // namespace monsoon::cpu
