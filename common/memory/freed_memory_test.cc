#include "common/memory/freed_memory.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "common/testing/seeds.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(FreedMemoryTest, GoesBackAlsoBelowWhatIsInUse) {
  if (testing::kSanitized) {
    GTEST_SKIP() << "the sanitizer's allocator keeps what is freed";
  }
  constexpr size_t kBytes = 100'000;  // as many pushes of a small model
  constexpr size_t kBlocks = 1000;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBytes));
    std::memset(blocks.back().get(), 1, kBytes);
  }
  const uint64_t full = ResidentBytes();
  const std::unique_ptr<char[]> last = std::move(blocks.back());
  blocks.clear();
  ReturnFreedMemory();
  EXPECT_LT(ResidentBytes() + kBlocks * kBytes / 2, full);
}

}  // namespace
}  // namespace monsoon
