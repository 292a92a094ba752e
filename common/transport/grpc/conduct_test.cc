#include "common/transport/grpc/conduct.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

// Calls of `peer`, `a_second` a second, that are taken back until it is cut off; -1: it is not.
int CallsBeforeTheCut(Conduct* conduct, const std::string& peer, double a_second) {
  absl::Duration now;
  for (int i = 1; i <= 10'000; ++i) {
    if (conduct->NoteInVain(peer, now)) {
      return i;
    }
    now += absl::Seconds(1 / a_second);
  }
  return -1;
}

TEST(ConductTest, CutsWhoTakesBackItsCallsAllTheTime) {
  Conduct conduct;
  EXPECT_EQ(CallsBeforeTheCut(&conduct, "a", 1e9), Conduct::kMost + 1);
  // Half of them are forgotten before the cut.
  EXPECT_NEAR(CallsBeforeTheCut(&conduct, "a", 2 * Conduct::kForgotten), 2 * Conduct::kMost, 2);
}

TEST(ConductTest, BearsWhoGivesUpNowAndThen) {
  Conduct conduct;
  EXPECT_EQ(CallsBeforeTheCut(&conduct, "a", 0.9 * Conduct::kForgotten), -1);
}

TEST(ConductTest, ManyAtOnceCount) {
  Conduct conduct;
  EXPECT_FALSE(conduct.NoteInVain("a", absl::ZeroDuration(), Conduct::kMost));
  EXPECT_TRUE(conduct.NoteInVain("a", absl::ZeroDuration()));
  EXPECT_TRUE(conduct.NoteInVain("b", absl::ZeroDuration(), Conduct::kMost + 1));
}

TEST(ConductTest, PeersAreCountedByThemselves) {
  Conduct conduct;
  for (int i = 0; i < Conduct::kMost; ++i) {
    EXPECT_FALSE(conduct.NoteInVain("a", absl::ZeroDuration()));
    EXPECT_FALSE(conduct.NoteInVain(absl::StrCat("other", i), absl::ZeroDuration()));
  }
  EXPECT_TRUE(conduct.NoteInVain("a", absl::ZeroDuration()));
  EXPECT_FALSE(conduct.NoteInVain("a", absl::ZeroDuration()));
}

TEST(ConductTest, RemembersThroughManyOthers) {
  Conduct conduct;
  for (int i = 0; i < Conduct::kMost; ++i) {
    EXPECT_FALSE(conduct.NoteInVain("a", absl::ZeroDuration()));
  }
  for (int i = 0; i < 5000; ++i) {
    EXPECT_FALSE(conduct.NoteInVain(absl::StrCat(i), absl::ZeroDuration()));
  }
  EXPECT_TRUE(conduct.NoteInVain("a", absl::ZeroDuration()));
}

}  // namespace
}  // namespace monsoon
