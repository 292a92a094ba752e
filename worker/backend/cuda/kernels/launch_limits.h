// Sizes that kernels and their callers agree on.
#pragma once

#include <cstdint>

namespace monsoon::cuda {

inline constexpr uint32_t kThreads = 256;  // of a block
// Element numbers are 32-bit, with room for a grid's stride above.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 31;
// Enough blocks for any GPU; each thread then takes several elements.
inline constexpr uint64_t kMaxBlocks = 32768;
// More than CUDA launches in a grid's first dimension.
inline constexpr uint64_t kTooManyBlocks = uint64_t{1} << 31;

// Blocks of a launch over `count` elements, 1 to kMaxElements. The last stride of a
// thread, to count + blocks * kThreads at most, stays below 2^32.
constexpr uint32_t BlocksForElements(uint64_t count) {
  const uint64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<uint32_t>(needed < kMaxBlocks ? needed : kMaxBlocks);
}

// Blocks of a launch with a block per row, 1 to kMaxElements rows: with one row too
// many for a grid, a block takes two.
constexpr uint32_t BlocksForRows(uint64_t rows) {
  return static_cast<uint32_t>(rows < kTooManyBlocks ? rows : kTooManyBlocks - 1);
}

}  // namespace monsoon::cuda
