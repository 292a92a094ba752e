#include "ps_server/server/settings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;

PsServerOptions Limited(uint64_t wanted_mib, std::optional<uint64_t> system_mib) {
  PsServerOptions options;
  options.message_memory_bytes = 256 * kMib;
  if (system_mib) {
    *system_mib *= kMib;
  }
  LimitMemory(wanted_mib * kMib, system_mib, &options);
  return options;
}

TEST(LimitMemoryTest, TheClusterFileSaysIt) {
  for (const std::optional<uint64_t> system : {std::optional<uint64_t>(), {65536}, {4096 + 320}}) {
    const PsServerOptions options = Limited(4096, system);
    EXPECT_EQ(options.memory_limit_bytes, 4096 * kMib);
    EXPECT_EQ(options.memory_limit_is, "ps.memory_limit_mib in the cluster file");
  }
}

TEST(LimitMemoryTest, ASmallerMachineOrContainerLeavesLess) {
  const PsServerOptions options = Limited(4096, 1024);
  EXPECT_EQ(options.memory_limit_bytes, (1024 - 256 - 64) * kMib);
  EXPECT_THAT(options.memory_limit_is,
              AllOf(HasSubstr("of the 1024 MiB that its machine or container lets it have"),
                    HasSubstr("memory_limit_mib in the cluster file is 4096")));
}

TEST(LimitMemoryTest, JobsHaveHalfOfAVerySmallOne) {
  EXPECT_EQ(Limited(4096, 200).memory_limit_bytes, 100 * kMib);
}

}  // namespace
}  // namespace monsoon
