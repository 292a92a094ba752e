#include "common/transport/grpc/newcomers.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NewcomersTest, AnAddressHasNoPort) {
  EXPECT_EQ(Newcomers::AddressOf("ipv4:10.0.0.5:41234"), "10.0.0.5");
  EXPECT_EQ(Newcomers::AddressOf("ipv6:%5B::1%5D:41234"), "::1");
}

TEST(NewcomersTest, ANetworkOfIpV6IsOneAddress) {
  const std::string one = Newcomers::AddressOf("ipv6:%5B2001:db8:0:7:1:2:3:4%5D:1");
  EXPECT_EQ(one, "2001:db8:0:7::/64");
  EXPECT_EQ(Newcomers::AddressOf("ipv6:%5B2001:db8:0:7:9:9:9:9%5D:2"), one);
  EXPECT_NE(Newcomers::AddressOf("ipv6:%5B2001:db8:0:8:1:2:3:4%5D:1"), one);
  EXPECT_EQ(Newcomers::AddressOf("ipv6:%5B2001:db8::5%5D:1"), "2001:db8::/64");
}

TEST(NewcomersTest, TheOldestOfAnAddressGoes) {
  Newcomers newcomers(8);
  for (int id = 0; id < 4; ++id) {
    EXPECT_THAT(newcomers.Add(id, "stranger"), IsEmpty());
  }
  EXPECT_THAT(newcomers.Add(4, "stranger"), ElementsAre(0));
  EXPECT_THAT(newcomers.Add(5, "stranger"), ElementsAre(1));
  EXPECT_EQ(newcomers.size(), 4u);
}

TEST(NewcomersTest, TheAddressWithTheMostMakesRoomForOthers) {
  Newcomers newcomers(6);
  for (int id = 0; id < 3; ++id) {
    EXPECT_THAT(newcomers.Add(id, "stranger"), IsEmpty());
  }
  EXPECT_THAT(newcomers.Add(10, "a"), IsEmpty());
  EXPECT_THAT(newcomers.Add(11, "b"), IsEmpty());
  EXPECT_THAT(newcomers.Add(12, "c"), IsEmpty());
  EXPECT_THAT(newcomers.Add(13, "d"), ElementsAre(0));
  EXPECT_THAT(newcomers.Add(14, "e"), ElementsAre(1));
}

TEST(NewcomersTest, WhoHasProvedItselfStays) {
  Newcomers newcomers(4);
  newcomers.Add(0, "host");
  newcomers.Prove(0);
  EXPECT_EQ(newcomers.size(), 0u);
  newcomers.Add(1, "host");
  newcomers.Add(2, "host");
  EXPECT_THAT(newcomers.Add(3, "host"), ElementsAre(1));
}

TEST(NewcomersTest, ANumberThatComesAgainIsAnotherConnection) {
  Newcomers newcomers(4);
  newcomers.Add(1, "a");
  newcomers.Add(2, "a");
  EXPECT_THAT(newcomers.Add(1, "b"), IsEmpty());
  EXPECT_EQ(newcomers.size(), 2u);
  EXPECT_THAT(newcomers.Add(3, "a"), IsEmpty());
  EXPECT_THAT(newcomers.Add(4, "a"), ElementsAre(2));
}

TEST(NewcomersTest, SoManyOfAnAddressComeASecond) {
  Newcomers newcomers(1000);
  absl::Duration now;
  int came = 0;
  for (int i = 0; i < 10'000; ++i, now += absl::Milliseconds(1)) {
    came += newcomers.MayCome("stranger", now) ? 1 : 0;
  }
  EXPECT_NEAR(came, Newcomers::kAtOnce + 10 * Newcomers::kASecond, 2);
  EXPECT_TRUE(newcomers.MayCome("another", now));
}

TEST(NewcomersTest, AnAddressIsShutOutForAWhile) {
  Newcomers newcomers(1000);
  newcomers.ShutOut("stranger", absl::ZeroDuration(), absl::Seconds(30));
  EXPECT_FALSE(newcomers.MayCome("stranger", absl::Seconds(29)));
  EXPECT_TRUE(newcomers.MayCome("another", absl::Seconds(29)));
  EXPECT_TRUE(newcomers.MayCome("stranger", absl::Seconds(31)));
}

TEST(NewcomersTest, WhoProvesItselfIsNotCounted) {
  Newcomers newcomers(1000);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(newcomers.MayCome("host", absl::ZeroDuration())) << i;
    newcomers.Add(i, "host");
    newcomers.Prove(i);
  }
}

TEST(NewcomersTest, RemembersThroughManyOthers) {
  Newcomers newcomers(1000);
  while (newcomers.MayCome("stranger", absl::ZeroDuration())) {
  }
  for (int i = 0; i < 5000; ++i) {
    EXPECT_TRUE(newcomers.MayCome(absl::StrCat(i), absl::ZeroDuration()));
  }
  EXPECT_FALSE(newcomers.MayCome("stranger", absl::ZeroDuration()));
}

}  // namespace
}  // namespace monsoon
