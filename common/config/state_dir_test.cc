#include "common/config/state_dir.h"

#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::StatusIs;

MATCHER_P(IsOkAndHolds, value, "is OK and holds the value") {
  *result_listener << (arg.ok() ? *arg : arg.status().ToString());
  return arg.ok() && *arg == value;
}

using Variables = std::map<std::string, std::string>;

constexpr char kFile[] = "/etc/clusters/a.textproto";

absl::StatusOr<std::string> Resolve(const Cluster& cluster, const Variables& variables,
                                    const std::string& file = kFile) {
  return ResolveStateDir(cluster, file, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::make_optional(found->second);
  });
}

Cluster Named(const std::string& name) {
  Cluster cluster;
  cluster.set_name(name);
  return cluster;
}

Cluster WithStateDir(const std::string& path) {
  Cluster cluster = Named("c");
  cluster.set_state_dir(path);
  return cluster;
}

const Variables kHome = {{"HOME", "/home-of/me"}};

TEST(ResolveStateDir, TheClusterFileComesFirst) {
  const Variables all = {
      {"MONSOON_STATE_DIR", "/m"}, {"XDG_STATE_HOME", "/x"}, {"HOME", "/home-of/me"}};
  EXPECT_THAT(Resolve(WithStateDir("/var/lib/m"), all), IsOkAndHolds("/var/lib/m"));
  EXPECT_THAT(Resolve(WithStateDir("state/"), all), IsOkAndHolds("/etc/clusters/state"));
  EXPECT_THAT(Resolve(WithStateDir("../s/./t"), all), IsOkAndHolds("/etc/s/t"));
  EXPECT_THAT(Resolve(WithStateDir("."), all), IsOkAndHolds("/etc/clusters"));
  EXPECT_THAT(Resolve(WithStateDir("/"), all), IsOkAndHolds("/"));
  // Set to nothing is not the same as unset.
  EXPECT_THAT(Resolve(WithStateDir(""), all), IsOkAndHolds(""));
}

TEST(ResolveStateDir, TheVariableComesNextAndMayBeEmpty) {
  EXPECT_THAT(Resolve(Named("c"), {{"MONSOON_STATE_DIR", "/m/n/"}, {"HOME", "/h"}}),
              IsOkAndHolds("/m/n"));
  EXPECT_THAT(Resolve(Named("c"), {{"MONSOON_STATE_DIR", ""}, {"HOME", "/h"}}), IsOkAndHolds(""));
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(Resolve(Named("c"), {{"MONSOON_STATE_DIR", "rel"}}), IsOkAndHolds(here + "/rel"));
}

TEST(ResolveStateDir, AFolderOfTheUserIsNamedByTheCluster) {
  EXPECT_THAT(*Resolve(Named("c"), kHome),
              MatchesRegex("/home-of/me/\\.local/state/monsoon/c-[0-9a-f]{8}"));
  EXPECT_THAT(*Resolve(Named("c"), {{"XDG_STATE_HOME", "/x/"}, {"HOME", "/h"}}),
              MatchesRegex("/x/monsoon/c-[0-9a-f]{8}"));
  EXPECT_THAT(*Resolve(Cluster(), kHome), HasSubstr("/monsoon/monsoon-"));
  // The specification of XDG folders: relative ones are not to be used.
  EXPECT_EQ(*Resolve(Named("c"), {{"XDG_STATE_HOME", "x"}, {"HOME", "/home-of/me"}}),
            *Resolve(Named("c"), kHome));
  EXPECT_EQ(*Resolve(Named("c"), {{"XDG_STATE_HOME", ""}, {"HOME", "/home-of/me"}}),
            *Resolve(Named("c"), kHome));
}

TEST(ResolveStateDir, TheNameCannotLeaveTheFolder) {
  EXPECT_THAT(*Resolve(Named("../../a b/c"), kHome),
              MatchesRegex("/home-of/me/\\.local/state/monsoon/\\.\\._\\.\\._a_b_c-[0-9a-f]{8}"));
}

TEST(ResolveStateDir, ThePathTellsClustersOfOneNameApart) {
  const auto of = [](const std::string& file) { return *Resolve(Named("c"), kHome, file); };
  EXPECT_NE(of("/a/c.textproto"), of("/b/c.textproto"));
  EXPECT_EQ(of("/a/c.textproto"), of("/a/b/.././c.textproto"));
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(of("c.textproto"), of(here + "/c.textproto"));
  // Jobs of today are found tomorrow: the value itself must not change.
  EXPECT_TRUE(absl::EndsWith(of("/a/c.textproto"), "/c-d9faefe0")) << of("/a/c.textproto");
}

TEST(ResolveStateDir, SaysWhatIsMissing) {
  EXPECT_THAT(Resolve(Named("c"), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(kFile), HasSubstr("HOME"), HasSubstr("state_dir"))));
  EXPECT_THAT(Resolve(Named("c"), {{"HOME", "not-absolute"}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("HOME")));
  EXPECT_THAT(Resolve(WithStateDir(""), {}), IsOkAndHolds(""));
}

TEST(SystemEnvironmentVariable, TellsUnsetFromEmpty) {
  ASSERT_EQ(setenv("MONSOON_STATE_DIR_TEST", "", 1), 0);
  EXPECT_EQ(SystemEnvironmentVariable("MONSOON_STATE_DIR_TEST"), "");
  ASSERT_EQ(unsetenv("MONSOON_STATE_DIR_TEST"), 0);
  EXPECT_EQ(SystemEnvironmentVariable("MONSOON_STATE_DIR_TEST"), std::nullopt);
}

}  // namespace
}  // namespace monsoon
