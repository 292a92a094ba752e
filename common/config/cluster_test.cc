#include "common/config/cluster.h"

#include "absl/strings/match.h"
#include "common/config/config_test_util.h"
#include "common/config/text_tokens.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(LoadCluster, FillsInDefaults) {
  const std::string path = testing::MakeFolder("cluster") + "/c.textproto";
  testing::WriteFile(path, R"(# A comment; lists, commas and <> are protobuf text too.
coordinator: < address: 'unix:' "c" >, ps: [{ address: "unix:a" }, {
address: "unix:b" message_memory_mib: 0x10 }]
worker { address: "unix:w" device: 2 };)");
  ASSERT_OK_AND_ASSIGN(const LoadedCluster loaded, LoadCluster(path));
  EXPECT_EQ(loaded.path, path);
  EXPECT_EQ(loaded.cluster.name(), "monsoon");
  EXPECT_EQ(loaded.cluster.coordinator().address(), "unix:c");
  ASSERT_EQ(loaded.cluster.ps_size(), 2);
  EXPECT_EQ(loaded.cluster.ps(0).memory_limit_mib(), 4096u);
  EXPECT_EQ(loaded.cluster.ps(0).message_memory_mib(), 256u);
  EXPECT_EQ(loaded.cluster.ps(1).message_memory_mib(), 16u);
  EXPECT_EQ(loaded.cluster.worker(0).threads(), 1u);
  EXPECT_EQ(loaded.cluster.worker(0).replicas(), 1u);
  EXPECT_EQ(loaded.cluster.worker(0).device(), CUDA);
  EXPECT_EQ(loaded.cluster.heartbeat_ms(), 500u);
  EXPECT_EQ(loaded.cluster.lost_after_ms(), 3000u);
  EXPECT_EQ(loaded.cluster.rpc_deadline_ms(), 10000u);
  EXPECT_EQ(loaded.cluster.keep_ended_jobs(), 20u);
  EXPECT_EQ(loaded.cluster.connections(), 1u);
  EXPECT_FALSE(loaded.cluster.has_state_dir());
}

TEST(LoadCluster, ThereMayBeSixteenConnections) {
  const std::string path = testing::MakeFolder("connections") + "/c.textproto";
  const std::string tasks = "coordinator { address: 'unix:c' } ps { address: 'unix:p' }\n";
  testing::WriteFile(path, tasks + "connections: 16");
  ASSERT_OK_AND_ASSIGN(const LoadedCluster loaded, LoadCluster(path));
  EXPECT_EQ(loaded.cluster.connections(), 16u);
  testing::WriteFile(path, tasks + "connections: 17");
  EXPECT_THAT(LoadCluster(path).status().message(),
              HasSubstr(":2:14: error: connections: 17 connections are more than 16"));
  testing::WriteFile(path, tasks + "num_connections: 4");
  EXPECT_THAT(LoadCluster(path).status().message(), HasSubstr("write connections"));
}

TEST(LoadCluster, RefusesWhatIsNoFile) {
  const std::string folder = testing::MakeFolder("no-cluster");
  const auto line = [](const std::string& path) {
    std::vector<Diagnostic> diagnostics;
    EXPECT_FALSE(LoadCluster(path, &diagnostics).ok());
    return diagnostics.size() == 1 ? FormatDiagnostic(diagnostics[0]) : "not one error";
  };
  EXPECT_EQ(line(folder + "/a"),
            folder + "/a:1:1: error: cannot read the file: No such file or directory");
  EXPECT_EQ(line(folder), folder + ":1:1: error: cannot read the file: it is a directory");
  EXPECT_EQ(line("/dev/zero"),
            "/dev/zero:1:1: error: cannot read the file: it is not a regular file");
  const std::string path = folder + "/f";
  const std::string empty =
      path +
      ":1:1: error: the file is empty; a cluster file has the fields name, coordinator, "
      "ps, worker, heartbeat_ms, lost_after_ms, rpc_deadline_ms, ps_lost_after_ms, "
      "worker_wait_ms, state_dir, keep_ended_jobs, open, data_roots, connections";
  testing::WriteFile(path, "");
  EXPECT_EQ(line(path), empty);
  testing::WriteFile(path, "# nothing but this\n\n");
  EXPECT_EQ(line(path), empty);
  testing::WriteFile(path, std::string(kMaxConfigBytes + 1, '#'));
  EXPECT_EQ(line(path),
            path + ":1:1: error: the file is larger than 1048576 bytes; is it a data file?");
  testing::WriteFile(path, testing::ValidCluster() + std::string(1000, '#'));
  EXPECT_OK(LoadCluster(path));
}

TEST(LoadCluster, JudgesDataRoots) {
  const std::string folder = testing::MakeFolder("roots");
  const std::string path = folder + "/c.textproto";
  const auto warnings_of = [&](const std::string& more) {
    testing::WriteFile(path, testing::ValidCluster() + more);
    std::vector<Diagnostic> warnings;
    const auto loaded = LoadCluster(path, nullptr, {.warnings = &warnings});
    EXPECT_OK(loaded) << more;
    std::string text;
    for (const Diagnostic& warning : warnings) {
      text += warning.field + ": " + warning.message + "\n";
    }
    return text;
  };
  const auto is_root = [](const std::string& text) {
    return absl::StrContains(text, "data_roots");
  };
  EXPECT_FALSE(is_root(warnings_of("data_roots: \"none\"")));
  EXPECT_FALSE(is_root(warnings_of("data_roots: \"" + folder + "\"")));
  EXPECT_THAT(
      warnings_of("data_roots: \"" + folder + "/none\""),
      ::testing::HasSubstr("data_roots: the data folder " + folder + "/none: No such file"));
  testing::WriteFile(path, testing::ValidCluster() + "data_roots: \"data\"");
  EXPECT_THAT(
      LoadCluster(path).status().message(),
      ::testing::HasSubstr("data_roots: the data folder \"data\" is no absolute path; as in "
                           "data_roots: \"/data\", or data_roots: \"none\""));
}

TEST(LoadCluster, StopsTellingAfterManyErrors) {
  const std::string path = testing::MakeFolder("many") + "/c.textproto";
  std::string text;
  for (int i = 0; i < 100000; ++i) {
    text += "a: 1\n";
  }
  testing::WriteFile(path, text);
  std::vector<Diagnostic> diagnostics;
  EXPECT_FALSE(LoadCluster(path, &diagnostics).ok());
  ASSERT_EQ(diagnostics.size(), kMaxDiagnosticsPerFile + 1);
  EXPECT_EQ(diagnostics.back().message, "too many errors; no more are told");
}

TEST(LoadCluster, SurvivesBottomlessNesting) {
  const std::string path = testing::MakeFolder("deep") + "/c.textproto";
  for (const char* piece : {"ps {", "a {", "[", "a: [", "<", "a { b: [{"}) {
    std::string text;
    while (text.size() < kMaxConfigBytes / 2) {
      text += piece;
    }
    testing::WriteFile(path, text);
    std::vector<Diagnostic> diagnostics;
    EXPECT_FALSE(LoadCluster(path, &diagnostics).ok());
    EXPECT_GE(diagnostics.size(), 1u);
  }
}

TEST(ValidateCluster, JudgesAMessageWithoutAFile) {
  Cluster cluster;
  cluster.mutable_coordinator()->set_address("unix:c");
  EXPECT_THAT(ValidateCluster(cluster), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("error: ps: a cluster needs")));
  cluster.add_ps()->set_address("unix:p");
  EXPECT_OK(ValidateCluster(cluster));
}

}  // namespace
}  // namespace monsoon
