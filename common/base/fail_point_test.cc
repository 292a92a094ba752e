#include "common/base/fail_point.h"

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

constexpr size_t kApplied = FailPointIndex("push.applied");
constexpr size_t kSynced = FailPointIndex("checkpoint.part_synced", /*status=*/true);

std::unique_ptr<FailPoints> Make(const std::string& points, const std::string& tokens = "") {
  absl::StatusOr<std::unique_ptr<FailPoints>> made = FailPoints::Create({points, tokens});
  EXPECT_OK(made);
  return *std::move(made);
}

// Which of `hits` hits kill: "..x".
std::string Kills(FailPoints* points, size_t point, int hits) {
  std::string kills;
  for (int i = 0; i < hits; ++i) {
    kills += points->Hit(point).kill ? 'x' : '.';
  }
  return kills;
}

std::string Wrong(const std::string& points) {
  const auto made = FailPoints::Create({points, ""});
  EXPECT_TRUE(absl::IsInvalidArgument(made.status())) << points;
  return std::string(made.status().message());
}

TEST(FailPoints, NothingHappensWithoutSettings) {
  const auto points = Make("");
  EXPECT_EQ(Kills(points.get(), kApplied, 3), "...");
  EXPECT_OK(points->Hit(kSynced).error);
}

TEST(FailPoints, ActsAtTheHitsThatItIsTold) {
  EXPECT_EQ(Kills(Make("push.applied=kill").get(), kApplied, 4), "x...");
  EXPECT_EQ(Kills(Make("push.applied=kill@3").get(), kApplied, 4), "..x.");
  EXPECT_EQ(Kills(Make("push.applied=killx2").get(), kApplied, 4), "xx..");
  EXPECT_EQ(Kills(Make("push.applied=kill@2x2").get(), kApplied, 5), ".xx..");
  EXPECT_EQ(Kills(Make("push.applied=kill@2x18446744073709551615").get(), kApplied, 4), ".xxx");
  EXPECT_EQ(Kills(Make("push.applied=kill").get(), kSynced, 2), "..");
}

TEST(FailPoints, SleepsAndFails) {
  const auto points = Make(
      "push.applied=sleep:250@2, checkpoint.part_synced=error:ENOSPC@2x2,restore.read=error:EIO,"
      "epoch.claimed=error:EACCES");
  EXPECT_EQ(points->Hit(kApplied).sleep, absl::ZeroDuration());
  EXPECT_EQ(points->Hit(kApplied).sleep, absl::Milliseconds(250));
  EXPECT_OK(points->Hit(kSynced).error);
  EXPECT_EQ(
      points->Hit(kSynced).error,
      absl::ResourceExhaustedError("fail point checkpoint.part_synced: No space left on device"));
  EXPECT_TRUE(absl::IsResourceExhausted(points->Hit(kSynced).error));
  EXPECT_OK(points->Hit(kSynced).error);
  EXPECT_TRUE(absl::IsUnavailable(points->Hit(FailPointIndex("restore.read", true)).error));
  EXPECT_TRUE(absl::IsPermissionDenied(points->Hit(FailPointIndex("epoch.claimed", true)).error));
}

TEST(FailPoints, Counts) {
  const auto points = Make("push.applied=kill");
  EXPECT_EQ(points->Counts(), "");
  Kills(points.get(), kSynced, 3);
  Kills(points.get(), kApplied, 1);
  EXPECT_EQ(points->Counts(), "push.applied 1\ncheckpoint.part_synced 3\n");
}

TEST(FailPoints, RefusesWhatItDoesNotKnow) {
  const std::string unknown = Wrong("push.aplied=kill");
  EXPECT_THAT(unknown, HasSubstr("\"push.aplied=kill\": there is no such point"));
  for (const FailPoint& point : kFailPoints) {
    EXPECT_THAT(unknown, HasSubstr("\n  " + std::string(point.name)));
  }
  EXPECT_THAT(Wrong("push.applied"), HasSubstr("it is not NAME=ACTION[@N][xK]"));
  EXPECT_THAT(Wrong("push.applied=kill,push.applied=kill@2"), HasSubstr("named twice"));
  for (const char* const action : {"", "die", "kill@", "kill@0", "kill@-1", "killx0", "kill3",
                                   "sleep", "sleep:", "sleep:x", "sleep:-1", "kill@2x3x4"}) {
    EXPECT_THAT(Wrong("push.applied=" + std::string(action)), HasSubstr("an action is")) << action;
  }
  EXPECT_THAT(Wrong("push.applied=error:ENOSPC"), HasSubstr("cannot return an error"));
  EXPECT_THAT(Wrong("restore.read=error:ENOTHING"), HasSubstr("an error is ENOSPC"));
}

class FailPointTokens : public ::testing::Test {
 protected:
  FailPointTokens() : folder_(::testing::TempDir() + "/" + testing::UniqueName()) {
    std::filesystem::create_directories(folder_);
  }
  ~FailPointTokens() override { std::filesystem::remove_all(folder_); }

  void Put(const std::string& name) { std::ofstream(folder_ + "/" + name); }
  bool Has(const std::string& name) { return std::filesystem::exists(folder_ + "/" + name); }

  const std::string folder_;
};

TEST_F(FailPointTokens, NothingHappensWithoutTheToken) {
  const auto points = Make("push.applied=kill@2", folder_);
  EXPECT_EQ(Kills(points.get(), kApplied, 5), ".....");
  Put("push.applied");
  // Counted from now on.
  EXPECT_EQ(Kills(points.get(), kApplied, 4), ".x..");
  EXPECT_EQ(points->Counts(), "push.applied 9\n");
  EXPECT_FALSE(Has("push.applied"));
  EXPECT_TRUE(Has("push.applied.taken"));
}

TEST_F(FailPointTokens, OneProcessActs) {
  Put("push.applied");
  const auto first = Make("push.applied=kill@2x2", folder_);
  const auto second = Make("push.applied=kill@2x2", folder_);
  EXPECT_EQ(Kills(second.get(), kApplied, 1), ".");
  EXPECT_EQ(Kills(first.get(), kApplied, 5), ".xx..");
  EXPECT_EQ(Kills(second.get(), kApplied, 5), ".....");
  // Another token.
  Put("push.applied");
  EXPECT_EQ(Kills(second.get(), kApplied, 3), ".xx");
  // The next life of the first.
  EXPECT_EQ(Kills(Make("push.applied=kill@2x2", folder_).get(), kApplied, 5), ".....");
}

absl::Status FailsAtPoint() {
  MONSOON_FAIL_POINT_STATUS("checkpoint.part_synced");
  return absl::OkStatus();
}

// Of this process, whose environment says nothing.
TEST(FailPointMacros, AreNoticed) {
  EXPECT_OK(FailsAtPoint());
  MONSOON_FAIL_POINT("push.applied");
}

using FailPointDeathTest = FailPointTokens;

TEST_F(FailPointDeathTest, EndsTheProcessWhileItCounts) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const std::string file = folder_ + "/counts";
  // The child begins anew, with this environment.
  setenv("MONSOON_FAIL_POINTS", "push.applied=kill@2", 1);
  setenv("MONSOON_FAIL_POINTS_COUNT", file.c_str(), 1);
  EXPECT_EXIT(
      {
        (void)FailsAtPoint();
        MONSOON_FAIL_POINT("push.applied");
        MONSOON_FAIL_POINT("push.applied");
      },
      ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(
      {
        MONSOON_FAIL_POINT("push.applied");
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  setenv("MONSOON_FAIL_POINTS", "nonsense", 1);
  EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(2), "no such point");
  unsetenv("MONSOON_FAIL_POINTS");
  unsetenv("MONSOON_FAIL_POINTS_COUNT");
  std::ifstream counts(file);
  const std::string text{std::istreambuf_iterator<char>(counts), {}};
  EXPECT_EQ(text, "push.applied 2\ncheckpoint.part_synced 1\npush.applied 1\n");
}

}  // namespace
}  // namespace monsoon
