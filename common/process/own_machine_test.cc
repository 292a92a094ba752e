#include "common/process/own_machine.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(OwnMachineTest, IsKnownByNameByAddressAndByWhatNamesStandFor) {
  std::vector<std::string> asked;
  const OwnMachine machine("alpha", {"127.0.0.1", "10.0.0.5", "2001:db8::7"},
                           [&asked](const std::string& host) {
                             asked.push_back(host);
                             return host == "alpha.lan"    ? std::vector<std::string>{"10.0.0.5"}
                                    : host == "debian.lan" ? std::vector<std::string>{"127.0.1.1"}
                                    : host == "beta.lan"   ? std::vector<std::string>{"10.0.0.6"}
                                                           : std::vector<std::string>();
                           });
  for (const char* own : {"alpha", "ALPHA", "10.0.0.5", "127.0.1.1", "::1", "2001:db8:0::7"}) {
    EXPECT_TRUE(machine.Is(own)) << own;
  }
  EXPECT_TRUE(asked.empty());
  EXPECT_TRUE(machine.Is("alpha.lan"));
  EXPECT_TRUE(machine.Is("debian.lan"));
  for (const char* other : {"beta.lan", "nobody", "10.0.0.6", "2001:db8::8", "0.0.0.0", "::"}) {
    EXPECT_FALSE(machine.Is(other)) << other;
  }
}

TEST(OwnMachineTest, TheSystemTellsTheLoopback) {
  EXPECT_TRUE(OwnMachine::Look().Is("127.0.0.1"));
  EXPECT_FALSE(OwnMachine::Look().Is("192.0.2.1"));  // of documentation
}

}  // namespace
}  // namespace monsoon
