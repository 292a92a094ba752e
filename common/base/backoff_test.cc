#include "common/base/backoff.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(BackoffTest, DoublesUpToTheMaximum) {
  BackoffOptions options;
  options.jitter = 0.0;
  Backoff backoff(options);
  for (int ms : {10, 20, 40, 80, 160, 320, 500, 500}) {
    EXPECT_EQ(backoff.Next(), absl::Milliseconds(ms));
  }
  EXPECT_EQ(backoff.count(), 8u);
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(10));
}

TEST(BackoffTest, JitterShortensAndTellsSeedsApart) {
  Backoff a({}, 1), b({}, 2);
  bool differ = false;
  for (int i = 0; i < 10'000; ++i) {
    const absl::Duration wait = a.Next();
    EXPECT_LE(wait, absl::Milliseconds(500));
    EXPECT_GE(wait, absl::Milliseconds(7));
    differ |= wait != b.Next();
  }
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace monsoon
