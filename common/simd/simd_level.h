// Which SIMD instructions the kernels run with, chosen at run time: a program
// holds each loop once per level (simd.bzl) and is the same file for every
// machine. All levels give the same bits, but for loops that say otherwise.
//
// The environment's MONSOON_SIMD=baseline|avx2|avx512 lowers the highest level, to
// see on one machine what others would do. The process ends with exit code 2 where it
// names no level that the machine has.
//
// Thread safe, and nothing blocks.
#pragma once

#include <vector>

namespace monsoon {

// In rising order. On other machines than x86-64 only kBaseline exists, and
// stands for what their compiler uses by itself.
enum class SimdLevel {
  kBaseline,  // x86-64's SSE2
  kAvx2,      // with FMA
  kAvx512,    // F, DQ, VL and BW
};

// "baseline", "avx2", "avx512".
const char* SimdLevelName(SimdLevel level);

// What processor and operating system can run and MONSOON_SIMD allows, rising;
// kBaseline at least.
std::vector<SimdLevel> SupportedSimdLevels();

// Whether MONSOON_SIMD says how high the levels go.
bool SimdLevelIsLimited();

// The level in use: the highest supported one, unless a ScopedSimdLevel lives.
SimdLevel ActiveSimdLevel();
inline const char* SimdLevelName() { return SimdLevelName(ActiveSimdLevel()); }

// Sets the level of the whole process while it lives, for tests and benchmarks.
// The level is supported. Calls in flight may finish at the old level.
class ScopedSimdLevel {
 public:
  explicit ScopedSimdLevel(SimdLevel level);
  ~ScopedSimdLevel();
  ScopedSimdLevel(const ScopedSimdLevel&) = delete;
  ScopedSimdLevel& operator=(const ScopedSimdLevel&) = delete;

 private:
  const SimdLevel before_;
};

// Of the three builds of one table of loops, the one of the active level.
template <typename Loops>
const Loops& ActiveLoops(const Loops& baseline, const Loops& avx2, const Loops& avx512) {
  const SimdLevel level = ActiveSimdLevel();
  return level == SimdLevel::kAvx512 ? avx512 : level == SimdLevel::kAvx2 ? avx2 : baseline;
}

}  // namespace monsoon
