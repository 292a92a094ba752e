#include "common/base/random_bytes.h"

#include <bitset>
#include <set>
#include <string>

#include "common/base/random_id.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(RandomBytesTest, HasTheLength) {
  for (const size_t count : {0, 1, 32, 255, 256, 257, 100'000}) {
    EXPECT_EQ(RandomBytes(count).size(), count);
  }
}

// 100,000 fair bytes have 400,000 bits, give or take 447: ten times that is no chance.
TEST(RandomBytesTest, HalfOfTheBitsAreSet) {
  int set = 0;
  for (const char byte : RandomBytes(100'000)) {
    set += static_cast<int>(std::bitset<8>(static_cast<unsigned char>(byte)).count());
  }
  EXPECT_NEAR(set, 400'000, 4'470);
}

TEST(RandomBytesTest, NothingComesTwice) {
  std::set<std::string> seen;
  std::set<uint64_t> ids;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(seen.insert(RandomBytes(16)).second);
    EXPECT_TRUE(ids.insert(RandomId()).second);
  }
  EXPECT_EQ(ids.count(0), 0u);
}

}  // namespace
}  // namespace monsoon
