#include "common/simd/simd_level.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

// What Linux says of the first processor.
std::set<std::string> ProcessorFlags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) {
      std::istringstream words(line.substr(line.find(':') + 1));
      return {std::istream_iterator<std::string>(words), {}};
    }
  }
  return {};
}

TEST(SimdLevelTest, TheHighestThatTheMachineHasIsActive) {
  const std::set<std::string> flags = ProcessorFlags();
  SimdLevel expected = SimdLevel::kBaseline;
  if (flags.contains("avx2") && flags.contains("fma")) {
    expected = SimdLevel::kAvx2;
    if (flags.contains("avx512f") && flags.contains("avx512dq") && flags.contains("avx512vl") &&
        flags.contains("avx512bw")) {
      expected = SimdLevel::kAvx512;
    }
  }
  EXPECT_EQ(ActiveSimdLevel(), expected);
  EXPECT_STREQ(SimdLevelName(), SimdLevelName(expected));
  const std::vector<SimdLevel> levels = SupportedSimdLevels();
  EXPECT_EQ(levels.front(), SimdLevel::kBaseline);
  EXPECT_EQ(levels.back(), expected);
  EXPECT_TRUE(std::ranges::is_sorted(levels));
}

TEST(SimdLevelTest, AScopeChoosesAndRestores) {
  struct Loops {
    const char* name;
  };
  const Loops baseline = {"baseline"}, avx2 = {"avx2"}, avx512 = {"avx512"};
  const SimdLevel before = ActiveSimdLevel();
  for (const SimdLevel level : SupportedSimdLevels()) {
    const ScopedSimdLevel scope(level);
    EXPECT_EQ(ActiveSimdLevel(), level);
    EXPECT_STREQ(ActiveLoops(baseline, avx2, avx512).name, SimdLevelName(level));
    EXPECT_STREQ(SimdLevelName(), SimdLevelName(level));
  }
  EXPECT_EQ(ActiveSimdLevel(), before);
}

TEST(SimdLevelTest, TheEnvironmentLowersTheHighest) {
  EXPECT_FALSE(SimdLevelIsLimited());
  const std::vector<SimdLevel> all = SupportedSimdLevels();
  for (size_t i = 0; i < all.size(); ++i) {
    setenv("MONSOON_SIMD", SimdLevelName(all[i]), 1);
    EXPECT_EQ(SupportedSimdLevels(), std::vector<SimdLevel>(all.begin(), all.begin() + i + 1));
    EXPECT_TRUE(SimdLevelIsLimited());
  }
  unsetenv("MONSOON_SIMD");
  EXPECT_EQ(SupportedSimdLevels(), all);
}

TEST(SimdLevelDeathTest, ALevelThatIsNotThereIsRefused) {
  setenv("MONSOON_SIMD", "avx3", 1);
  EXPECT_EXIT(SupportedSimdLevels(), ::testing::ExitedWithCode(2),
              "MONSOON_SIMD=avx3: this machine has no such level; it has baseline");
  unsetenv("MONSOON_SIMD");
}

}  // namespace
}  // namespace monsoon
