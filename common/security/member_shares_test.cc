#include "common/security/member_shares.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MemberSharesTest, LeavesRoomForWhoeverComesNext) {
  MemberShares shares({.what = "seats", .total = 12, .remedy = "get up"});
  EXPECT_OK(shares.Take("worker/1", 6));
  EXPECT_THAT(shares.Take("worker/1", 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("worker/1 has 6 seats"), HasSubstr("may have 6"),
                             HasSubstr("beside 0 other"), HasSubstr("get up"))));
  EXPECT_OK(shares.Take("worker/2", 4));
  EXPECT_FALSE(shares.Take("worker/2", 1).ok());
  EXPECT_FALSE(shares.Take("worker/1", 1).ok());
  EXPECT_OK(shares.Take("worker/3", 3));
}

TEST(MemberSharesTest, WhatIsGivenBackIsThere) {
  MemberShares shares({.what = "seats", .total = 12});
  EXPECT_OK(shares.Take("worker/1", 6));
  EXPECT_OK(shares.Take("worker/2", 4));
  shares.Give("worker/1", 6);
  EXPECT_EQ(shares.members(), 1u);
  EXPECT_OK(shares.Take("worker/2", 2));
  shares.Give("worker/2", 5);
  EXPECT_EQ(shares.Of("worker/2"), 1u);
}

TEST(MemberSharesTest, EverybodyHasTheLeast) {
  MemberShares shares({.what = "seats", .total = 4, .least = 3});
  for (const char* const member : {"worker/1", "worker/2", "worker/3"}) {
    EXPECT_OK(shares.Take(member, 3));
    EXPECT_FALSE(shares.Take(member, 1).ok());
  }
}

TEST(MemberSharesTest, NobodyHasMoreThanTheMost) {
  MemberShares shares({.what = "seats", .total = 100, .most = 5});
  EXPECT_OK(shares.Take("worker/1", 5));
  EXPECT_FALSE(shares.Take("worker/1", 1).ok());
}

TEST(MemberSharesTest, TheLastQuarterIsForThoseWhoHaveLittle) {
  EXPECT_EQ(MemberShares::MostBeside(100, 5, 74), 100u);
  EXPECT_EQ(MemberShares::MostBeside(100, 5, 75), 5u);
  EXPECT_EQ(MemberShares::MostBeside(100, 5, 120), 5u);
}

TEST(MemberSharesTest, WhatIsCountedAskedNobody) {
  MemberShares shares({.what = "seats", .total = 12});
  shares.Count("worker/1", 20);
  shares.Count("worker/2", 0);
  shares.Count("", 3);
  EXPECT_EQ(shares.Of("worker/1"), 20u);
  EXPECT_EQ(shares.members(), 1u);
  EXPECT_FALSE(shares.Take("worker/1", 1).ok());
  EXPECT_OK(shares.Take("worker/2", 4));
}

TEST(MemberSharesTest, ThisMachinesUserHasNoShare) {
  MemberShares shares({.what = "seats", .total = 4});
  EXPECT_OK(shares.Take("", 100));
  shares.Give("", 100);
  EXPECT_EQ(shares.members(), 0u);
}

}  // namespace
}  // namespace monsoon
