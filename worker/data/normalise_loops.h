// The loops that turn stored values into a network's input, compiled once per
// SIMD level (common/simd/simd.bzl); all levels give the same bits:
//   out[i] = raw[i] * factor + offset, rounded after each operation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monsoon {

struct NormaliseLoops {
  void (*bytes)(size_t n, float factor, float offset, const uint8_t* raw, float* out);
  void (*floats)(size_t n, float factor, float offset, const float* raw, float* out);
};

namespace simd_baseline {
extern const NormaliseLoops kNormaliseLoops;
}
namespace simd_avx2 {
extern const NormaliseLoops kNormaliseLoops;
}
namespace simd_avx512 {
extern const NormaliseLoops kNormaliseLoops;
}

}  // namespace monsoon
