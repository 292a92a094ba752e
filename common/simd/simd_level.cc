#include "common/simd/simd_level.h"

#include <algorithm>
#include <atomic>

#include "common/base/check.h"

namespace monsoon {
namespace {

std::atomic<SimdLevel>& Active() {
  static std::atomic<SimdLevel> level{SupportedSimdLevels().back()};
  return level;
}

}  // namespace

const char* SimdLevelName(SimdLevel level) {
  switch (level) {
    case SimdLevel::kBaseline:
      return "baseline";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<SimdLevel> SupportedSimdLevels() {
  std::vector<SimdLevel> levels = {SimdLevel::kBaseline};
#if defined(__x86_64__)
  // These tell also whether the operating system saves the registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) {
    levels.push_back(SimdLevel::kAvx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
      levels.push_back(SimdLevel::kAvx512);
    }
  }
#endif
  return levels;
}

SimdLevel ActiveSimdLevel() { return Active().load(std::memory_order_relaxed); }

ScopedSimdLevel::ScopedSimdLevel(SimdLevel level) : before_(ActiveSimdLevel()) {
  const std::vector<SimdLevel> supported = SupportedSimdLevels();
  CHECK(std::ranges::find(supported, level) != supported.end());
  Active().store(level, std::memory_order_relaxed);
}

ScopedSimdLevel::~ScopedSimdLevel() { Active().store(before_, std::memory_order_relaxed); }

}  // namespace monsoon
