// Numbers of job.proto that more than one part must agree on.
#pragma once

#include <cstdint>

namespace monsoon {

// Sandblaster: contributions to one evaluation. Every shard keeps a mark per contribution
// and stripe, and the sum of the losses a double: more would cost memory without finer
// balance.
inline constexpr uint32_t kMaxContributions = 16384;

}  // namespace monsoon
