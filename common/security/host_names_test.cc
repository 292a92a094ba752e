#include "common/security/host_names.h"

#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST(HostNamesTest, NamesAndAddressesPass) {
  EXPECT_OK(CheckHostNames({}));
  EXPECT_OK(CheckHostNames({"alpha", "alpha.lab.example.org", "node_1", "10.0.0.1", "fe80::1"}));
  EXPECT_TRUE(IsIpAddress("127.0.1.1"));
  EXPECT_TRUE(IsIpAddress("::1"));
  EXPECT_FALSE(IsIpAddress("[::1]"));
  EXPECT_FALSE(IsIpAddress("alpha"));
}

TEST(HostNamesTest, OthersAreNamed) {
  const std::vector<std::string> wrong = {"",
                                          "*",
                                          "*.lab",
                                          "a b",
                                          "a..b",
                                          ".a",
                                          "a.",
                                          "-a",
                                          "a-",
                                          "alpha:2221",
                                          "[::1]",
                                          "\x1b[2J",
                                          "a\nb",
                                          "a/b",
                                          "a,b",
                                          "\xc3\xa4",
                                          std::string(64, 'a'),
                                          std::string("a\0b", 3)};
  for (const std::string& name : wrong) {
    EXPECT_THAT(CheckHostNames({"alpha", name}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("neither an IP address")))
        << name;
  }
  EXPECT_THAT(CheckHostNames({"a\nb"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"a\\nb\"")));
  EXPECT_THAT(CheckHostNames(std::vector<std::string>(kMostHostNames + 1, "a")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("32 are the most")));
}

}  // namespace
}  // namespace monsoon
