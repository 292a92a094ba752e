// The command line against real processes: what a newcomer types, and what
// comes out.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/process/subprocess.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::PollUntil;
using ::testing::StartsWith;
using testing::UniqueName;

constexpr absl::Duration kLong = absl::Seconds(60);

constexpr char kJob[] = R"pb(
  name: "tiny"
  model {
    name: "tiny"
    input_shape: 6
    layer { dense { units: 5 } }
    layer { relu {} }
    layer { dense { units: 3 } }
  }
  train { synthetic { examples: 2000 classes: 3 seed: 1 center_seed: 9 } }
  test { synthetic { examples: 300 classes: 3 seed: 2 center_seed: 9 } }
  batch_size: 10
  downpour { optimizer { sgd { rate: 0.05 } } }
  stop { epochs: 2 }
)pb";

struct Outcome {
  int code = -1;
  std::string out;
};

class CliClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = UniqueName();
    folder_ = std::getenv("TEST_TMPDIR");
    cluster_ = absl::StrCat(folder_, "/", name, ".textproto");
    const std::string prefix = testing::UniqueSocketAddress() + "-";
    std::ofstream(cluster_) << "name: \"" << name << "\" heartbeat_ms: 100 lost_after_ms: 1000\n"
                            << "coordinator { address: \"" << prefix << "c\" }\n"
                            << "ps { address: \"" << prefix << "p0\" }\n"
                            << "ps { address: \"" << prefix << "p1\" }\n"
                            << "worker { address: \"" << prefix << "w0\" device: CPU }\n"
                            << "worker { address: \"" << prefix << "w1\" device: CPU }\n";
    job_ = folder_ + "/tiny.textproto";
    std::ofstream(job_) << kJob;
    model_ = folder_ + "/model.npz";
    std::vector<std::string> argv = {"coordinator/coordinator", "up", "--bin_dir=.",
                                     "--cluster=" + cluster_};
    argv.insert(argv.end(), up_flags_.begin(), up_flags_.end());
    auto up = Subprocess::Start(argv, {.pipe_stdout = false});
    ASSERT_OK(up.status());
    up_.emplace(*std::move(up));
    ASSERT_TRUE(PollUntil(kLong, [&] {
      ReadAvailable(up_->stderr_fd(), &up_log_);
      return absl::StrContains(up_log_, "\" is ready: coordinator ");
    })) << up_log_;
    EXPECT_THAT(up_log_, HasSubstr("2 ps, 2 workers (--restart="));
  }

  void TearDown() override {
    up_->Signal(SIGTERM);
    EXPECT_EQ(AwaitUp(), expected_up_code_) << up_log_;
  }

  int AwaitUp() {
    EXPECT_TRUE(PollUntil(kLong, [&] {
      ReadAvailable(up_->stderr_fd(), &up_log_);
      return up_->TryWait().has_value();
    }));
    return up_->TryWait().value_or(ProcessEnd{.code = -1}).code;
  }

  Outcome Cli(std::vector<std::string> args) const {
    args.insert(args.begin(), "coordinator/coordinator");
    args.push_back("--cluster=" + cluster_);
    const absl::StatusOr<CapturedRun> run = RunAndCapture(args);
    EXPECT_OK(run.status());
    return run.ok() ? Outcome{run->end.signaled ? -1 : run->end.code, run->output} : Outcome{};
  }

  google::protobuf::Struct Json(const std::vector<std::string>& args) const {
    const Outcome outcome = Cli(args);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    google::protobuf::Struct json;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(outcome.out, &json).ok())
        << outcome.out;
    return json;
  }

  static double Number(const google::protobuf::Struct& json, const std::string& object,
                       const std::string& key) {
    return json.fields().at(object).struct_value().fields().at(key).number_value();
  }

  std::vector<std::string> up_flags_;
  std::string folder_;
  std::string cluster_;
  std::string job_;
  std::string model_;
  std::optional<Subprocess> up_;
  std::string up_log_;
  int expected_up_code_ = 143;
};

TEST_F(CliClusterTest, SubmitWatchDescribeExportEvaluateInitDelete) {
  const Outcome watched = Cli({"submit", job_, "--watch"});
  EXPECT_EQ(watched.code, 0);
  EXPECT_THAT(watched.out, AllOf(StartsWith("submitted tiny-1, state PENDING\nt="),
                                 HasSubstr("\n  worker=0 state="),
                                 HasSubstr("\ndone job=tiny-1 state=SUCCEEDED test_acc=")));

  const google::protobuf::Struct described = Json({"describe", "latest", "--json"});
  EXPECT_EQ(described.fields().at("state").string_value(), "SUCCEEDED");
  EXPECT_EQ(Number(described, "progress", "examples"), 4000);
  EXPECT_EQ(Number(described, "counts", "pushes"), Number(described, "counts", "steps"));
  EXPECT_EQ(described.fields().at("shards").list_value().values_size(), 2);

  EXPECT_EQ(Cli({"export", "tiny-1", "--out=" + model_}).code, 0);
  const google::protobuf::Struct evaluated =
      Json({"evaluate", "--model=" + model_, "--job=" + job_, "--bin_dir=.", "--json"});
  EXPECT_NEAR(evaluated.fields().at("test_accuracy").number_value(),
              Number(described, "final", "test_accuracy"), 1e-6);
  EXPECT_EQ(evaluated.fields().at("examples").number_value(), 300);

  // A rate that changes no bit: what comes out is what went in.
  const std::string again = folder_ + "/again.npz";
  EXPECT_EQ(Cli({"submit", job_, "--init=" + model_, "--set=downpour.optimizer.sgd.rate=1e-30",
                 "--set=stop={ steps: 4 }", "--watch"})
                .code,
            0);
  EXPECT_EQ(Cli({"export", "latest", "--out=" + again}).code, 0);
  const absl::StatusOr<CapturedRun> numpy = RunAndCapture(
      {"/usr/bin/python3", "-c",
       "import sys, numpy\n"
       "a, b = numpy.load(sys.argv[1]), numpy.load(sys.argv[2])\n"
       "assert sorted(a.files) == sorted(b.files) and len(a.files) == 4, a.files\n"
       "assert all((a[k].view('<u4') == b[k].view('<u4')).all() for k in a.files)\n"
       "assert sum(a[k].size for k in a.files) == 6 * 5 + 5 + 5 * 3 + 3\n"
       "assert all(numpy.abs(a[k]).max() > 0 for k in a.files if k.endswith('weight'))\n",
       model_, again});
  ASSERT_OK(numpy.status());
  EXPECT_TRUE(numpy->end.ok());

  EXPECT_EQ(Cli({"delete", "tiny-1"}).code, 0);
  EXPECT_EQ(Cli({"export", "tiny-1", "--out=" + again}).code, 2);
}

class CliClusterWithoutRestartsTest : public CliClusterTest {
 protected:
  CliClusterWithoutRestartsTest() { up_flags_ = {"--restart=never"}; }
};

TEST_F(CliClusterWithoutRestartsTest, AKilledShardFailsTheWatchedJobAndStopsTheCluster) {
  auto watch = Subprocess::Start({"coordinator/coordinator", "submit", job_, "--watch",
                                  "--set=stop={ seconds: 300 }", "--cluster=" + cluster_},
                                 {});
  ASSERT_OK(watch.status());
  std::string out;
  ASSERT_TRUE(PollUntil(kLong, [&] {
    ReadAvailable(watch->stdout_fd(), &out);
    return absl::StrContains(out, "state=RUNNING");
  }));
  // Null until the coordinator has asked the shard. A kill of 0 would be one of
  // this test.
  pid_t pid = 0;
  ASSERT_TRUE(PollUntil(kLong, [&] {
    const google::protobuf::Struct described = Json({"describe", "latest", "--json"});
    const auto& shards = described.fields().at("shards").list_value();
    if (shards.values_size() < 2) {
      return false;  // nobody is listed before the first status
    }
    pid = static_cast<pid_t>(shards.values(1).struct_value().fields().at("pid").number_value());
    return pid > 1;
  }));
  kill(pid, SIGKILL);
  expected_up_code_ = 1;
  EXPECT_EQ(AwaitUp(), 1);
  EXPECT_THAT(up_log_, HasSubstr("ps/1 died: killed by signal 9 (SIGKILL)"));
  ASSERT_TRUE(PollUntil(kLong, [&] { return watch->TryWait().has_value(); }));
  EXPECT_EQ(watch->TryWait()->code, 1);
  std::string err;
  ReadAvailable(watch->stdout_fd(), &out);
  ReadAvailable(watch->stderr_fd(), &err);
  EXPECT_THAT(out, HasSubstr("done job=tiny-1 state=FAILED"));
  EXPECT_THAT(err, HasSubstr("tiny-1 failed: ps/1"));
}

TEST_F(CliClusterTest, CancelWaitsAndAnInterruptedWatchLeavesTheJob) {
  EXPECT_EQ(Cli({"submit", job_, "--set=stop={ seconds: 300 }", "--json"}).out,
            "{\"schema_version\":1,\"job\":\"tiny-1\",\"state\":\"PENDING\"}\n");
  auto watch = Subprocess::Start(
      {"coordinator/coordinator", "watch", "tiny-1", "--cluster=" + cluster_}, {});
  ASSERT_OK(watch.status());
  std::string out;
  ASSERT_TRUE(PollUntil(kLong, [&] {
    ReadAvailable(watch->stdout_fd(), &out);
    return absl::StrContains(out, "state=RUNNING");
  }));
  watch->Signal(SIGINT);
  ASSERT_TRUE(PollUntil(kLong, [&] { return watch->TryWait().has_value(); }));
  EXPECT_EQ(watch->TryWait()->Describe(), "exited with code 130");
  EXPECT_EQ(Json({"describe", "tiny-1", "--json"}).fields().at("state").string_value(), "RUNNING");
  EXPECT_EQ(Cli({"cancel", "tiny-1", "--wait"}).out, "tiny-1 ended, state CANCELLED\n");
  EXPECT_EQ(Cli({"watch", "tiny-1"}).code, 1);
}

}  // namespace
}  // namespace monsoon
