#include "common/security/caller.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(CallerTest, AMemberCountsByItsNameWhereverItIs) {
  Caller caller{.address = "ipv4:10.0.0.5:41234", .member = Peer()};
  caller.member->identity = {.role = Role::kWorker, .name = "7", .cluster = "lab"};
  EXPECT_EQ(QuotaName(caller), "worker/7");
}

TEST(CallerTest, OthersCountByTheirAddressWithoutThePort) {
  EXPECT_EQ(QuotaName({.address = "ipv4:10.0.0.5:41234"}), "10.0.0.5");
  EXPECT_EQ(QuotaName({.address = "ipv6:%5B::1%5D:41234"}), "%5B::1%5D");
}

TEST(CallerTest, AUnixSocketIsItsUsers) { EXPECT_EQ(QuotaName({.address = "unix:"}), ""); }

}  // namespace
}  // namespace monsoon
