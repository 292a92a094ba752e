// The loop of sums, compiled once per SIMD level (common/simd). Each element by itself, so the
// levels give the same bits.
#pragma once

#include <cstddef>

namespace monsoon {

struct SumLoops {
  // to = from + to; the two do not overlap.
  void (*add)(size_t n, const float* from, float* to);
};

namespace simd_baseline {
extern const SumLoops kSumLoops;
}
namespace simd_avx2 {
extern const SumLoops kSumLoops;
}
namespace simd_avx512 {
extern const SumLoops kSumLoops;
}

}  // namespace monsoon
