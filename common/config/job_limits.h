// Numbers of job.proto that more than one part must agree on.
#pragma once

#include <cstdint>

namespace monsoon {

// Sandblaster: pairs (s, y), and contributions to one evaluation. Every shard
// keeps a mark per contribution and stripe, and the sum of the losses a double:
// more would cost memory without finer balance.
inline constexpr uint32_t kMaxHistory = 20;
inline constexpr uint32_t kMaxContributions = 16384;

// What stands in for unset Sandblaster fields.
inline constexpr uint32_t kDefaultHistory = 10;
inline constexpr uint32_t kDefaultMaxIterations = 100;
inline constexpr double kDefaultC1 = 1e-4;
inline constexpr double kDefaultC2 = 0.9;
inline constexpr uint32_t kDefaultLineSearchEvaluations = 20;

}  // namespace monsoon
