#include "common/simd/simd_level.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/check.h"

namespace monsoon {
namespace {

std::atomic<SimdLevel>& Active() {
  static std::atomic<SimdLevel> level{SupportedSimdLevels().back()};
  return level;
}

constexpr char kLimit[] = "MONSOON_SIMD";

const char* Limit() {
  const char* const value = std::getenv(kLimit);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

std::vector<SimdLevel> LevelsOfTheMachine() {
  std::vector<SimdLevel> levels = {SimdLevel::kBaseline};
#if defined(__x86_64__)
  // These tell also whether the operating system saves the registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    levels.push_back(SimdLevel::kAvx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
      levels.push_back(SimdLevel::kAvx512);
    }
  }
#endif
  return levels;
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
  std::vector<SimdLevel> levels = LevelsOfTheMachine();
  const char* const limit = Limit();
  if (limit == nullptr) {
    return levels;
  }
  const auto last = std::ranges::find_if(
      levels, [&](SimdLevel level) { return std::strcmp(SimdLevelName(level), limit) == 0; });
  if (last == levels.end()) {
    std::fprintf(stderr, "%s=%s: this machine has no such level; it has", kLimit, limit);
    for (const SimdLevel level : levels) {
      std::fprintf(stderr, " %s", SimdLevelName(level));
    }
    std::fprintf(stderr, ". Unset it for the highest\n");
    std::exit(2);
  }
  levels.erase(last + 1, levels.end());
  return levels;
}

bool SimdLevelIsLimited() { return Limit() != nullptr; }

SimdLevel ActiveSimdLevel() { return Active().load(std::memory_order_relaxed); }

ScopedSimdLevel::ScopedSimdLevel(SimdLevel level) : before_(ActiveSimdLevel()) {
  const std::vector<SimdLevel> supported = SupportedSimdLevels();
  CHECK(std::ranges::find(supported, level) != supported.end());
  Active().store(level, std::memory_order_relaxed);
}

ScopedSimdLevel::~ScopedSimdLevel() { Active().store(before_, std::memory_order_relaxed); }

}  // namespace monsoon
