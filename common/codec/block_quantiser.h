// What INT8 and INT4 have in common: blocks of 256 floats, each with a scale =
// largest |x| / steps; a value is scale * q with q in [-steps, steps], rounded to
// nearest and even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monsoon {

inline constexpr size_t kBlockFloats = 256;

// How many blocks `floats` values have; the last one may be shorter.
inline size_t Blocks(size_t floats) { return (floats + kBlockFloats - 1) / kBlockFloats; }

// Writes block.size() values to `q` and returns the scale. It is 0 for a block of zeros
// or of values below steps * 2^-128, and not finite if a value is not; then each q is 1.
float QuantiseBlock(std::span<const float> block, float steps, int8_t* q);

}  // namespace monsoon
