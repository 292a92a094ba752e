#include "common/config/address.h"

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(ParseAddress, ReadsEachForm) {
  ASSERT_OK_AND_ASSIGN(const Address tcp, ParseAddress("node-1.example:2222"));
  EXPECT_EQ(tcp.kind, Address::Kind::kTcp);
  EXPECT_EQ(tcp.host, "node-1.example");
  EXPECT_EQ(tcp.port, 2222);
  ASSERT_OK_AND_ASSIGN(const Address six, ParseAddress("[::1]:0"));
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.port, 0);
  ASSERT_OK_AND_ASSIGN(const Address file, ParseAddress("unix:/run/a.sock"));
  EXPECT_EQ(file.kind, Address::Kind::kUnix);
  EXPECT_EQ(file.path, "/run/a.sock");
  EXPECT_EQ(file.path, "/run/a.sock");
}

TEST(ParseAddress, LimitsUnixPathsToWhatTheSystemTakes) {
  EXPECT_OK(ParseAddress("unix:" + std::string(kMaxUnixPathBytes, 'a')));
  EXPECT_THAT(ParseAddress("unix:" + std::string(kMaxUnixPathBytes + 1, 'a')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("107")));
}

TEST(ParseAddress, RefusesTheRest) {
  for (const char* text : {"", "localhost", ":1", "a b:1", "a:", "a:-1", "a:65536", "a:1x",
                           "a:99999999999999999999", "unix:", "::1:5", "[]:5"}) {
    EXPECT_THAT(ParseAddress(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")))
        << text;
  }
}

TEST(ParseAddress, SaysWhatToUseForAnAbstractSocket) {
  for (const std::string text : {"unix-abstract:ps0", "unix-abstract:"}) {
    EXPECT_THAT(
        ParseAddress(text),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 "\"" + text +
                     "\" is an abstract Unix socket, to which every user of the machine can "
                     "connect: use unix:PATH, as in unix:/run/user/1000/ps0"));
    EXPECT_FALSE(IsLoopback(text));
  }
}

TEST(ParseAddress, SaysWhereBracketsOfIpv6AreMissing) {
  const auto message = [](const char* text) {
    return std::string(ParseAddress(text).status().message());
  };
  EXPECT_EQ(message("::1:2222"),
            "\"::1:2222\" is an IPv6 address without brackets: write [::1]:2222");
  EXPECT_EQ(message("2001:db8::7:2222"),
            "\"2001:db8::7:2222\" is an IPv6 address without brackets: write [2001:db8::7]:2222");
  EXPECT_THAT(message("2001:db8:0:0:0:0:0:7"), HasSubstr("IPv6 address without brackets: write"));
  EXPECT_EQ(message("[::1]"), "\"[::1]\" has no port: write [::1]:PORT");
  EXPECT_EQ(message("[1::2::3]:5"), "\"1::2::3\" is not an IPv6 address");
  EXPECT_OK(ParseAddress("[2001:db8::7]:2222"));
  EXPECT_OK(ParseAddress("[::ffff:10.0.0.1]:2222"));
}

TEST(IsLoopback, KnowsWhatStaysOnTheMachine) {
  for (const char* text :
       {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "LOCALHOST:1", "[::1]:1", "unix:/a"}) {
    EXPECT_TRUE(IsLoopback(text)) << text;
  }
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "127.evil.example.org:1", "127.0.0.1.org:1",
                           "[::]:1", "example.org:1", "nonsense"}) {
    EXPECT_FALSE(IsLoopback(text)) << text;
  }
}

TEST(SameEndpoint, SeesThroughSpellings) {
  const auto same = [](const char* a, const char* b) {
    return SameEndpoint(*ParseAddress(a), *ParseAddress(b));
  };
  EXPECT_TRUE(same("127.0.0.1:1", "localhost:1"));
  EXPECT_TRUE(same("0.0.0.0:1", "10.0.0.1:1"));
  EXPECT_TRUE(same("unix:/a", "unix:/a"));
  EXPECT_TRUE(same("[::1]:1", "[0:0:0:0:0:0:0:1]:1"));
  EXPECT_TRUE(same("alpha.lan.:1", "ALPHA.lan:1"));
  EXPECT_FALSE(same("127.0.0.1:1", "127.0.0.1:2"));
  EXPECT_FALSE(same("127.0.0.1:0", "127.0.0.1:0"));
  EXPECT_FALSE(same("unix:a", "unix:b"));
}

}  // namespace
}  // namespace monsoon
