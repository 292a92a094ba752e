#include "common/transport/frame/stream_budget.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StreamBudgetTest, AdmitsWhatTheBudgetHolds) {
  StreamBudget budget(64 << 20, 6 << 20);  // 48 MiB for streams
  EXPECT_EQ(budget.capacity(), 8u);
  for (int i = 0; i < 8; ++i) {
    ASSERT_OK(budget.Acquire());
  }
  EXPECT_THAT(budget.Acquire(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("64 MiB"), HasSubstr("message_memory_mib"))));
  budget.Release();
  EXPECT_OK(budget.Acquire());
}

TEST(StreamBudgetTest, AStreamCostsMoreThanItsFrames) {
  EXPECT_GE(StreamBytes(1 << 20), (1u << 20) + 3 * kMaxFrameBytes);
  EXPECT_EQ(StreamBudget(1, 1 << 20).capacity(), 1u);
}

}  // namespace
}  // namespace monsoon
