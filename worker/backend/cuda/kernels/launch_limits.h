// Sizes that kernels and their callers agree on.
#pragma once

#include <cstdint>

namespace monsoon::cuda {

inline constexpr uint32_t kThreads = 256;  // of a block
// Element numbers are 32-bit, with room for a grid's stride above.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 31;

}  // namespace monsoon::cuda
