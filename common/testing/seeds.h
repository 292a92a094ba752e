// Which seeds a simulation runs: its own first ones, in every test run, or those of
// --seeds=FIRST..LAST, both included.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace monsoon::testing {

struct Seeds {
  uint64_t first = 0;
  uint64_t end = 0;  // one above the last
};

// Unoptimised and checked, a simulation takes so much longer that it does with few.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MONSOON_SANITIZED 1
#endif
#endif
#ifdef MONSOON_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The first `count`, or a tenth of them under a sanitizer.
constexpr Seeds FirstSeeds(uint64_t count) {
  return {.first = 1, .end = 1 + (kSanitized ? count / 10 : count)};
}

inline bool ParseSeeds(absl::string_view text, Seeds* seeds) {
  const std::vector<std::string> ends = absl::StrSplit(text, "..");
  uint64_t last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &seeds->first) ||
      !absl::SimpleAtoi(ends[1], &last) || last < seeds->first) {
    return false;
  }
  seeds->end = last + 1;
  return true;
}

// The main() of such a test, which reads `seeds`.
inline int RunWithSeeds(int argc, char** argv, Seeds* seeds) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--seeds=") || !ParseSeeds(argument, seeds)) {
      std::fprintf(stderr, "%s: --seeds=FIRST..LAST, not %s\n", argv[0], argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

}  // namespace monsoon::testing
