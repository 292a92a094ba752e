// The loops of fixed_point.h over whole lines of 16 floats, compiled once per
// SIMD level (common/simd/simd.bzl). All levels give the same bits. Outputs
// overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monsoon {

struct FixedPointLoops {
  // maxima[l] = max(maxima[l], |values of line l|).
  void (*raise_maxima)(size_t lines, const float* values, float* maxima);
  // The same, and adds to `sum` the values of each line in units of
  // 2^exponents[l], to nearest and even, if none is above `bound` of them.
  // False if some line was left out.
  bool (*add)(size_t lines, const float* values, const int16_t* exponents, double bound,
              float* maxima, int64_t* sum);
  // out = factor * sum * 2^exponents[l], in double and rounded once.
  void (*round)(size_t lines, const int64_t* sum, const int16_t* exponents, double factor,
                float* out);
  // out = factor * sum * 2^exponents[l] + shift * shift_vector, likewise.
  void (*round_shifted)(size_t lines, const int64_t* sum, const int16_t* exponents, double factor,
                        double shift, const float* shift_vector, float* out);
};

namespace simd_baseline {
extern const FixedPointLoops kFixedPointLoops;
}
namespace simd_avx2 {
extern const FixedPointLoops kFixedPointLoops;
}
namespace simd_avx512 {
extern const FixedPointLoops kFixedPointLoops;
}

}  // namespace monsoon
