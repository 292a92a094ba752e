#include "worker/replica/replay_window_bytes.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;

TEST(DefaultReplayWindowTest, IsAGibibyteOrAQuarterOfWhatIsFree) {
  EXPECT_EQ(DefaultReplayWindow(kMib, std::nullopt), 1024 * kMib);
  EXPECT_EQ(DefaultReplayWindow(kMib, 64 * 1024 * kMib), 1024 * kMib);
  EXPECT_EQ(DefaultReplayWindow(kMib, 2048 * kMib), 512 * kMib);
}

// 300 million parameters: one push is larger than a GiB.
TEST(DefaultReplayWindowTest, HasRoomForTwoWholePushes) {
  EXPECT_EQ(DefaultReplayWindow(1200 * kMib, 64 * 1024 * kMib), 2400 * kMib);
  EXPECT_EQ(DefaultReplayWindow(600 * kMib, 64 * 1024 * kMib), 1200 * kMib);
}

TEST(DefaultReplayWindowTest, LeavesHalfOfWhatIsFree) {
  EXPECT_EQ(DefaultReplayWindow(1200 * kMib, 2048 * kMib), 1024 * kMib);
}

}  // namespace
}  // namespace monsoon
