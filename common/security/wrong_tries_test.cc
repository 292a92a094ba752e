#include "common/security/wrong_tries.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Hours(5);

class WrongTriesTest : public ::testing::Test {
 protected:
  // So many wrong ones, each as early as it may come; returns when the last one did.
  absl::Duration Try(const std::string& address, int count, absl::Duration now = kNow) {
    for (int i = 0; i < count; ++i) {
      while (!tries_.Check(address, now).ok()) {
        now += absl::Seconds(1);
      }
      tries_.Note(address, now);
    }
    return now;
  }

  WrongTries tries_;
};

TEST_F(WrongTriesTest, TheFifthSlowsDown) {
  EXPECT_EQ(Try("10.0.0.1", 4), kNow);
  EXPECT_OK(tries_.Check("10.0.0.1", kNow));
  tries_.Note("10.0.0.1", kNow);
  EXPECT_THAT(tries_.Check("10.0.0.1", kNow),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "5 wrong tokens came from 10.0.0.1; it may try again in 1s"));
  EXPECT_OK(tries_.Check("10.0.0.1", kNow + absl::Seconds(1)));
  EXPECT_OK(tries_.Check("10.0.0.2", kNow));
}

TEST_F(WrongTriesTest, EachWaitIsTwiceTheLastUpToAMinute) {
  absl::Duration now = Try("10.0.0.1", 5);
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60, 60}) {
    EXPECT_FALSE(
        tries_.Check("10.0.0.1", now + absl::Seconds(seconds) - absl::Nanoseconds(1)).ok());
    now += absl::Seconds(seconds);
    ASSERT_OK(tries_.Check("10.0.0.1", now)) << seconds;
    tries_.Note("10.0.0.1", now);
  }
}

TEST_F(WrongTriesTest, AnAddressBeginsAnewAfterTenMinutes) {
  const absl::Duration last = Try("10.0.0.1", 20);
  Try("10.0.0.1", 4, last + absl::Minutes(10));
  EXPECT_OK(tries_.Check("10.0.0.1", last + absl::Minutes(10)));
}

TEST_F(WrongTriesTest, ANetworkIsOneHost) {
  Try("2001:db8::1", 3);
  Try("2001:db8:0:0:ffff::2", 2);
  EXPECT_FALSE(tries_.Check("2001:db8::3", kNow).ok());
  EXPECT_OK(tries_.Check("2001:db8:0:1::1", kNow));
  Try("::ffff:10.0.0.1", 3);
  Try("10.0.0.1", 2);
  EXPECT_FALSE(tries_.Check("10.0.0.1", kNow).ok());
  EXPECT_OK(tries_.Check("::ffff:10.0.0.2", kNow));
}

TEST_F(WrongTriesTest, MemoryIsBounded) {
  Try("old", 5);
  for (size_t i = 0; i < WrongTries::kMostAddresses + 50; ++i) {
    Try(absl::StrCat("host", i), 1, kNow + absl::Seconds(1));
  }
  EXPECT_EQ(tries_.addresses(), WrongTries::kMostAddresses);
  EXPECT_OK(tries_.Check("old", kNow));  // it went first
  Try("new", 1, kNow + absl::Hours(1));
  EXPECT_EQ(tries_.addresses(), 1u);
}

}  // namespace
}  // namespace monsoon
