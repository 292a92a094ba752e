#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/checkpoint/checkpoint.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "coordinator/launcher/line_splitter.h"
#include "coordinator/launcher/part_epoch.h"
#include "coordinator/launcher/port_folder.h"
#include "coordinator/launcher/restart_backoff.h"
#include "coordinator/launcher/root_cause_box.h"
#include "coordinator/launcher/task_plan.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(LineSplitterTest, CutsAtNewlinesAcrossPieces) {
  LineSplitter lines;
  EXPECT_THAT(lines.Add("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(lines.Add("o"), IsEmpty());
  EXPECT_THAT(lines.Add("\n\nthree"), ElementsAre("two", ""));
  EXPECT_EQ(lines.TakeRest(), "three");
  EXPECT_EQ(lines.TakeRest(), "");
}

TEST(LineSplitterTest, CutsLongLines) {
  LineSplitter lines;
  const std::string longest(LineSplitter::kMaxLineBytes, 'a');
  EXPECT_THAT(lines.Add(longest + "b"), ElementsAre(longest));
  EXPECT_THAT(lines.Add("\n"), ElementsAre("b"));
}

TEST(RestartBackoffTest, DoublesUpToTheLongest) {
  ManualClock clock;
  RestartBackoff backoff(absl::Seconds(1), absl::Seconds(30), /*max_deaths=*/0);
  EXPECT_EQ(backoff.restarts(), 0);
  int restarts = 0;
  for (const int seconds : {1, 2, 4, 8, 16, 30, 30}) {
    const std::optional<absl::Duration> at =
        backoff.Died(clock.Now(), {.served = absl::Seconds(5)});
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(*at - clock.Now(), absl::Seconds(seconds));
    EXPECT_EQ(backoff.restarts(), ++restarts);
    clock.Advance(absl::Seconds(seconds + 5));
  }
}

TEST(RestartBackoffTest, TenSecondsOfServiceEarnTheFirstOneAgain) {
  const absl::Duration now = absl::Seconds(100);
  RestartBackoff backoff(absl::Seconds(1), absl::Seconds(30), /*max_deaths=*/0);
  backoff.Died(now, {});
  backoff.Died(now, {});
  EXPECT_EQ(backoff.Died(now, {.served = absl::Seconds(9.9)}), now + absl::Seconds(4));
  EXPECT_EQ(backoff.deaths_in_a_row(), 3u);
  EXPECT_EQ(backoff.Died(now, {.served = absl::Seconds(10)}), now + absl::Seconds(1));
  EXPECT_EQ(backoff.deaths_in_a_row(), 0u);
  EXPECT_EQ(backoff.StartFailed(now), now + absl::Seconds(2));
  EXPECT_EQ(backoff.deaths_in_a_row(), 1u);
  EXPECT_EQ(backoff.restarts(), 5);
}

TEST(RestartBackoffTest, ACheckpointEarnsItToo) {
  const absl::Duration now = absl::Seconds(100);
  RestartBackoff backoff(absl::Seconds(1), absl::Seconds(30), /*max_deaths=*/2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(backoff.Died(now, {.made_checkpoint = true}), now + absl::Seconds(1));
  }
  EXPECT_EQ(backoff.Died(now, {}), now + absl::Seconds(2));
  EXPECT_EQ(backoff.Died(now, {}), std::nullopt);
}

TEST(RestartBackoffTest, GivesUpAtTheLimit) {
  const absl::Duration now = absl::Seconds(100);
  RestartBackoff backoff(absl::Milliseconds(250), absl::Seconds(30), /*max_deaths=*/5);
  for (const int ms : {250, 500, 1000, 2000}) {
    EXPECT_EQ(backoff.Died(now, {}), now + absl::Milliseconds(ms));
  }
  EXPECT_EQ(backoff.restarts(), 4);
  EXPECT_EQ(backoff.Died(now, {}), std::nullopt);
  EXPECT_EQ(backoff.deaths_in_a_row(), 5u);
}

TEST(RestartBackoffTest, AHealthyLifeBeginsTheCountAnew) {
  const absl::Duration now = absl::Seconds(100);
  RestartBackoff backoff(absl::Seconds(1), absl::Seconds(30), /*max_deaths=*/3);
  for (int row = 0; row < 4; ++row) {
    EXPECT_TRUE(backoff.Died(now, {}).has_value());
    EXPECT_TRUE(backoff.Died(now, {}).has_value());
    EXPECT_TRUE(backoff.Died(now, {.served = absl::Minutes(5)}).has_value());
  }
  backoff.Died(now, {});
  backoff.Died(now, {});
  EXPECT_FALSE(backoff.Died(now, {}).has_value());
}

// `up` compares what stands there at the start and at the death of a shard's process.
class PartEpochTest : public ::testing::Test {
 protected:
  void Touch(const std::string& job, const std::string& name) {
    ASSERT_OK(storage_.MakeFolder("/state/jobs/" + job));
    ASSERT_OK(storage_.Create(absl::StrCat("/state/jobs/", job, "/", name)));
  }
  uint64_t Newest(uint32_t shard) {
    const absl::StatusOr<uint64_t> newest = NewestPartEpoch(storage_, "/state", shard);
    EXPECT_OK(newest);
    return newest.value_or(0);
  }

  SimulatedStorage storage_;
};

TEST_F(PartEpochTest, IsZeroWhereNothingIs) {
  EXPECT_EQ(Newest(0), 0u);
  ASSERT_OK(storage_.MakeFolder("/state/jobs/j-1@1"));
  EXPECT_EQ(Newest(0), 0u);
}

TEST_F(PartEpochTest, IsTheHighestOfAllJobsAndGenerations) {
  Touch("j-1@1", "ps-0-of-2.g9.e3.manifest");
  Touch("j-1@1", "ps-0-of-2.g8.e5.manifest");  // written after a return to generation 7
  Touch("j-2@1", "ps-0-of-2.g1.e4.manifest");
  EXPECT_EQ(Newest(0), 5u);
}

TEST_F(PartEpochTest, GrowsOnlyWithAWholePartOfThisShard) {
  Touch("j-1@1", "ps-0-of-2.g1.e3.manifest");
  Touch("j-1@1", "ps-1-of-2.g1.e7.manifest");
  Touch("j-1@1", "ps-0-of-2.g2.e8.safetensors");
  Touch("j-1@1", ".tmp-ps-0-of-2.g2.e8.manifest");
  ASSERT_OK(storage_.Create("/state/jobs/ps-0-of-2.g2.e8.manifest"));
  EXPECT_EQ(Newest(0), 3u);
  EXPECT_EQ(Newest(1), 7u);
  Touch("j-1@1", "ps-0-of-2.g2.e8.manifest");
  EXPECT_EQ(Newest(0), 8u);
}

// The job may be deleted before the shard dies: what the shard has noted stays.
TEST_F(PartEpochTest, IsThatOfADeletedJobToo) {
  Touch("j-1@1", "ps-0-of-2.g1.e3.manifest");
  ASSERT_OK(storage_.MakeFolder("/state/ps-0"));
  ASSERT_OK(storage_.WriteAll(LastWriterPath("/state", 0), "8\n"));
  EXPECT_EQ(Newest(0), 8u);
  EXPECT_EQ(Newest(1), 0u);
  // A part that is newer than the note, which comes after it.
  Touch("j-2@1", "ps-0-of-2.g1.e9.manifest");
  EXPECT_EQ(Newest(0), 9u);
  ASSERT_OK(storage_.WriteAll(LastWriterPath("/state", 0), "ten\n"));
  EXPECT_EQ(Newest(0), 9u);
}

TEST(RootCauseBoxTest, Golden) {
  EXPECT_EQ(RootCauseBox("worker/1", 4711, {.signaled = true, .code = 9}, absl::Milliseconds(12340),
                         {"a", "b"}, "the job goes on"),
            "+---- worker/1 died: killed by signal 9 (SIGKILL); pid 4711, after 12.3 s\n"
            "| last lines of its log:\n"
            "|   a\n"
            "|   b\n"
            "| the job goes on\n"
            "+----\n");
  EXPECT_EQ(RootCauseBox("ps/0", 1, {.code = 2}, absl::ZeroDuration(), {}, "stopping"),
            "+---- ps/0 died: exited with code 2; pid 1, after 0.0 s\n"
            "| it has logged nothing\n"
            "| stopping\n"
            "+----\n");
}

class PortFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(::testing::TempDir(), "/ports-XXXXXX");
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
  }
  // A folder with a port file, as a killed process leaves it.
  void Leave(const std::string& name) {
    ASSERT_EQ(mkdir(absl::StrCat(root_, "/", name).c_str(), 0700), 0);
    std::ofstream(absl::StrCat(root_, "/", name, "/worker-0")) << "unix:a\n";
  }
  static bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

  std::string root_;
};

TEST_F(PortFolderTest, IsRemovedWithItsFiles) {
  ASSERT_OK_AND_ASSIGN(auto folder, PortFolder::Make(root_));
  const std::string path = folder->path();
  EXPECT_THAT(path, StartsWith(root_ + "/monsoon-up-"));
  std::ofstream(path + "/ps-0") << "127.0.0.1:1\n";
  ASSERT_TRUE(Exists(path + "/ps-0"));
  folder.reset();
  EXPECT_FALSE(Exists(path));
  EXPECT_THAT(PortFolder::Make(root_ + "/none").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(root_ + "/none/monsoon-up-")));
}

TEST_F(PortFolderTest, RemovesWhatDeadOnesLeftAndNothingElse) {
  Leave("monsoon-up-stale1");
  Leave("monsoon-up-stale2");
  Leave("monsoon_demo.abc");
  std::ofstream(root_ + "/monsoon-up-file") << "no folder";
  ASSERT_EQ(symlink((root_ + "/monsoon_demo.abc").c_str(), (root_ + "/monsoon-up-link").c_str()),
            0);
  ASSERT_OK_AND_ASSIGN(const auto first, PortFolder::Make(root_));
  EXPECT_FALSE(Exists(root_ + "/monsoon-up-stale1"));
  EXPECT_FALSE(Exists(root_ + "/monsoon-up-stale2"));
  EXPECT_TRUE(Exists(root_ + "/monsoon_demo.abc/worker-0"));
  EXPECT_TRUE(Exists(root_ + "/monsoon-up-file"));
  EXPECT_TRUE(Exists(root_ + "/monsoon-up-link"));
  // A living owner keeps its folder.
  ASSERT_OK_AND_ASSIGN(const auto second, PortFolder::Make(root_));
  EXPECT_TRUE(Exists(first->path()));
  EXPECT_NE(first->path(), second->path());
}

class TaskPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    bin_ = absl::StrCat(::testing::TempDir(), "/plan-XXXXXX");
    ASSERT_NE(mkdtemp(bin_.data()), nullptr);
    for (const std::string name : {"coordinator", "ps_server", "worker"}) {
      std::ofstream(bin_ + "/" + name) << "#!/bin/sh\n";
      ASSERT_EQ(chmod((bin_ + "/" + name).c_str(), 0700), 0);
    }
  }

  std::string bin_;
};

TEST_F(TaskPlanTest, CommandLines) {
  Cluster cluster;
  cluster.mutable_coordinator()->set_address("127.0.0.1:2221");
  cluster.add_ps()->set_address("localhost:2222");
  cluster.add_worker()->set_address("unix:w0");
  cluster.add_worker()->set_address("10.0.0.7:2223");
  ASSERT_OK_AND_ASSIGN(const UpPlan plan, PlanTasks(cluster, {.cluster_path = "c.textproto",
                                                              .bin_dir = bin_,
                                                              .port_folder = "/p",
                                                              .insecure = true,
                                                              .data = {"/a", "/b"},
                                                              .fault = "delay_ms=20"}));
  ASSERT_EQ(plan.tasks.size(), 3u);
  EXPECT_THAT(plan.tasks[0].argv,
              ElementsAre(bin_ + "/coordinator", "serve", "--cluster=c.textproto",
                          "--port_file=/p/coordinator-0", "--die_with_parent", "--insecure",
                          "--fault=delay_ms=20"));
  EXPECT_THAT(
      plan.tasks[1].argv,
      ElementsAre(bin_ + "/ps_server", "--task=0", "--cluster=c.textproto", "--port_file=/p/ps-0",
                  "--die_with_parent", "--insecure", "--fault=delay_ms=20"));
  EXPECT_EQ(plan.tasks[2].name, "worker/0");
  EXPECT_THAT(plan.tasks[2].argv,
              ElementsAre(bin_ + "/worker", "--task=0", "--cluster=c.textproto",
                          "--port_file=/p/worker-0", "--die_with_parent", "--insecure",
                          "--fault=delay_ms=20", "--data=/a", "--data=/b"));
  EXPECT_THAT(plan.not_local, ElementsAre("worker/1 at 10.0.0.7:2223"));
}

TEST_F(TaskPlanTest, IndexIsThatOfTheClusterFile) {
  Cluster cluster;
  cluster.mutable_coordinator()->set_address("10.0.0.1:2221");
  cluster.add_ps()->set_address("10.0.0.1:2222");
  cluster.add_ps()->set_address("unix:p1");
  ASSERT_OK_AND_ASSIGN(const UpPlan plan, PlanTasks(cluster, {.bin_dir = bin_}));
  ASSERT_EQ(plan.tasks.size(), 1u);
  EXPECT_EQ(plan.tasks[0].name, "ps/1");
  EXPECT_EQ(plan.tasks[0].index, 1);
}

TEST_F(TaskPlanTest, WhatIsAtThisMachinesNameOrAddressIsStarted) {
  Cluster cluster;
  cluster.mutable_coordinator()->set_address("alpha:2221");
  cluster.add_ps()->set_address("alpha:2222");
  cluster.add_ps()->set_address("beta:2222");
  cluster.add_worker()->set_address("10.0.0.5:2223");
  cluster.add_worker()->set_address("0.0.0.0:2224");
  std::vector<std::string> asked;
  PlanOptions options{.bin_dir = bin_};
  options.is_own_host = [&asked](const std::string& host) {
    asked.push_back(host);
    return host == "alpha" || host == "10.0.0.5";
  };
  ASSERT_OK_AND_ASSIGN(const UpPlan plan, PlanTasks(cluster, options));
  ASSERT_EQ(plan.tasks.size(), 3u);
  EXPECT_EQ(plan.tasks[0].name, "coordinator/0");
  EXPECT_EQ(plan.tasks[1].name, "ps/0");
  EXPECT_EQ(plan.tasks[2].name, "worker/0");
  EXPECT_THAT(plan.not_local, ElementsAre("ps/1 at beta:2222", "worker/1 at 0.0.0.0:2224"));
  EXPECT_THAT(asked, ElementsAre("alpha", "beta", "10.0.0.5", "0.0.0.0"));
}

TEST_F(TaskPlanTest, NothingLocal) {
  Cluster cluster;
  cluster.mutable_coordinator()->set_address("10.0.0.1:2221");
  EXPECT_THAT(PlanTasks(cluster, {.cluster_path = "c.textproto", .bin_dir = bin_}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("c.textproto: no task")));
}

}  // namespace
}  // namespace monsoon
