#include "common/memory/available_memory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Optional;

constexpr uint64_t kMib = uint64_t{1} << 20;

// A machine of 8 GiB, of which 4 are free, as its files tell.
class AvailableMemoryTest : public ::testing::Test {
 protected:
  AvailableMemoryTest()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    Write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");
  }

  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::optional<uint64_t> Limit() const { return MemoryLimit(root_); }
  std::optional<uint64_t> Available() const { return AvailableMemory(root_); }

  const std::filesystem::path root_;
};

TEST_F(AvailableMemoryTest, TheMachineAlone) {
  EXPECT_THAT(Limit(), Optional(8192 * kMib));
  EXPECT_THAT(Available(), Optional(4096 * kMib));
}

TEST_F(AvailableMemoryTest, AGroupOfVersion2AndThoseAroundIt) {
  Write("proc/self/cgroup", "0::/kube/pod\n");
  Write("sys/fs/cgroup/kube/pod/memory.max", "max\n");
  Write("sys/fs/cgroup/kube/pod/memory.current", "1048576\n");
  Write("sys/fs/cgroup/kube/memory.max", "536870912\n");
  Write("sys/fs/cgroup/kube/memory.current", "314572800\n");
  Write("sys/fs/cgroup/kube/memory.stat", "anon 5\ninactive_file 104857600\n");
  EXPECT_THAT(Limit(), Optional(512 * kMib));
  EXPECT_THAT(Available(), Optional(312 * kMib));
}

TEST_F(AvailableMemoryTest, AContainersOwnGroupIsTheRootOfTheMount) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "268435456\n");
  Write("sys/fs/cgroup/memory.current", "1048576\n");
  EXPECT_THAT(Limit(), Optional(256 * kMib));
  EXPECT_THAT(Available(), Optional(255 * kMib));
}

TEST_F(AvailableMemoryTest, AGroupOfVersion1) {
  // The path is the host's, which this container does not see.
  Write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/1234\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "67108864\n");
  Write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 33554432\n");
  EXPECT_THAT(Limit(), Optional(128 * kMib));
  EXPECT_THAT(Available(), Optional(96 * kMib));
}

TEST_F(AvailableMemoryTest, AGroupWithoutALimitLeavesTheMachines) {
  Write("proc/self/cgroup", "4:memory:/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "67108864\n");
  EXPECT_THAT(Limit(), Optional(8192 * kMib));
  EXPECT_THAT(Available(), Optional(4096 * kMib));
}

TEST_F(AvailableMemoryTest, AGroupThatIsOverItsLimitHasNothingLeft) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "1048576\n");
  Write("sys/fs/cgroup/memory.current", "2097152\n");
  EXPECT_THAT(Available(), Optional(0u));
}

}  // namespace
}  // namespace monsoon
