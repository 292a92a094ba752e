// Sandblaster jobs on real daemons whose workers are killed or stopped.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
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
#include "tests/cluster/batch_jobs.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using google::protobuf::Struct;
using testing::PollUntil;
using testing::TracePoint;
using testing::UniqueName;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr int kWorkers = 4;

// Softmax regression on a sample of Fashion-MNIST.
constexpr char kJob[] = R"pb(
  name: "softmax"
  model {
    name: "softmax"
    input_shape: 784
    layer {
      dense {
        units: 10
        weight_initializer { constant: 0 }
        bias_initializer { constant: 0 }
      }
    }
  }
  train {
    idx {
      images: "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
      labels: "/usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz"
    }
    mean: 0.286
    limit: 4000
  }
  seed: 1
  batch_size: 50
  sandblaster {
    history: 10
    l2: 1e-4
    gradient_tolerance: 1e-9
    sample_examples: 2000
    chunks_per_contribution: 1
  }
)pb";
constexpr int kContributions = 2000 / 50;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

double Number(const Struct& json, const std::string& key) {
  return json.fields().at(key).number_value();
}
const Struct& Member(const Struct& json, const char* key) {
  return json.fields().at(key).struct_value();
}

// What `describe --json` says.
struct Seen {
  struct Worker {
    std::string state;
    pid_t pid = 0;
  };
  std::string state;
  int iteration = 0;
  int total = 0;
  int done = 0;
  int backup = 0;
  std::string end_reason;
  std::map<int, Worker> workers;
  std::vector<TracePoint> trace;
  std::vector<double> elapsed_s;  // of the trace's points
  int workers_lost = 0;

  bool mid_evaluation() const { return total == kContributions && done > 0 && done < total; }
};

Seen Parse(const Struct& json) {
  Seen seen;
  if (!json.fields().contains("state")) {
    return seen;  // describe failed
  }
  seen.state = json.fields().at("state").string_value();
  for (const auto& value : json.fields().at("workers").list_value().values()) {
    const Struct& worker = value.struct_value();
    seen.workers[static_cast<int>(Number(worker, "task"))] = {
        worker.fields().at("state").string_value(), static_cast<pid_t>(Number(worker, "pid"))};
  }
  for (const auto& event : json.fields().at("events").list_value().values()) {
    seen.workers_lost += event.struct_value().fields().at("kind").string_value() == "worker_lost";
  }
  if (!json.fields().at("sandblaster").has_struct_value()) {
    return seen;
  }
  const Struct& sandblaster = Member(json, "sandblaster");
  const Struct& chunks = Member(sandblaster, "chunks");
  seen.iteration = static_cast<int>(Number(sandblaster, "iteration"));
  seen.total = static_cast<int>(Number(chunks, "total"));
  seen.done = static_cast<int>(Number(chunks, "done"));
  seen.backup = static_cast<int>(Number(chunks, "backup"));
  seen.end_reason = sandblaster.fields().at("end_reason").string_value();
  for (const auto& value : sandblaster.fields().at("trace").list_value().values()) {
    const Struct& point = value.struct_value();
    seen.trace.push_back({Number(point, "f"), Number(point, "gradient_norm"),
                          Number(point, "step_length"),
                          static_cast<uint64_t>(Number(point, "evaluations"))});
    seen.elapsed_s.push_back(Number(point, "elapsed_s"));
  }
  return seen;
}

// `coordinator up` and the command line.
class LocalCluster {
 public:
  void Start(uint32_t lost_after_ms, const std::string& fault) {
    folder_ = std::getenv("TEST_TMPDIR");
    const std::string name = UniqueName();
    cluster_ = absl::StrCat(folder_, "/", name, ".textproto");
    job_ = absl::StrCat(folder_, "/softmax.textproto");
    const std::string prefix = testing::UniqueSocketAddress() + "-";
    std::ofstream cluster(cluster_);
    cluster << "name: \"" << name << "\" heartbeat_ms: 100 lost_after_ms: " << lost_after_ms
            << "\ncoordinator { address: \"" << prefix << "c\" }\n"
            << "ps { address: \"" << prefix << "p0\" }\n"
            << "ps { address: \"" << prefix << "p1\" }\n";
    for (int i = 0; i < kWorkers; ++i) {
      cluster << "worker { address: \"" << prefix << "w" << i << "\" device: CPU }\n";
    }
    cluster.close();
    std::ofstream(job_) << kJob;
    std::vector<std::string> argv = {"coordinator/coordinator",
                                     "up",
                                     "--bin_dir=.",
                                     "--quiet",
                                     "--restart=workers",
                                     "--restart_backoff=0.05",
                                     "--restart_limit=0",
                                     "--cluster=" + cluster_};
    if (!fault.empty()) {
      argv.push_back("--fault=" + fault);
    }
    auto up = Subprocess::Start(argv, {.pipe_stdout = false});
    ASSERT_OK(up.status());
    up_.emplace(*std::move(up));
    ASSERT_TRUE(PollUntil(kLong, [&] {
      return absl::StrContains(log(), "\" is ready: coordinator ");
    })) << log_;
  }

  void Stop() {
    up_->Signal(SIGTERM);
    EXPECT_TRUE(PollUntil(kLong, [&] {
      log();
      return up_->TryWait().has_value();
    }));
    EXPECT_EQ(up_->TryWait().value_or(ProcessEnd{}).code, 143) << log_;
  }

  // All that `up` said.
  const std::string& log() {
    ReadAvailable(up_->stderr_fd(), &log_);
    return log_;
  }

  std::string Cli(std::vector<std::string> args) {
    log();  // or its pipe fills
    args.insert(args.begin(), "coordinator/coordinator");
    args.push_back("--cluster=" + cluster_);
    const absl::StatusOr<CapturedRun> run = RunAndCapture(args);
    EXPECT_OK(run.status());
    EXPECT_TRUE(run.ok() && run->end.ok()) << args[1];
    return run.ok() ? run->output : "";
  }

  void Submit(const std::vector<std::string>& overrides) {
    std::vector<std::string> args = {"submit", job_};
    for (const std::string& text : overrides) args.push_back("--set=" + text);
    Cli(args);
  }

  Seen Describe() {
    Struct json;
    EXPECT_TRUE(
        google::protobuf::util::JsonStringToMessage(Cli({"describe", "latest", "--json"}), &json)
            .ok());
    return Parse(json);
  }

  template <typename Predicate>
  std::optional<Seen> Await(Predicate done) {
    Seen seen;
    const bool in_time = PollUntil(kLong, [&] {
      seen = Describe();
      return done(seen) || Ended(seen);
    });
    EXPECT_TRUE(in_time && done(seen)) << "state " << seen.state << ", iteration " << seen.iteration
                                       << ", " << seen.done << " of " << seen.total << " done";
    return in_time && done(seen) ? std::make_optional(seen) : std::nullopt;
  }

  static bool Ended(const Seen& seen) {
    return seen.state.empty() || seen.state == "SUCCEEDED" || seen.state == "FAILED" ||
           seen.state == "CANCELLED";
  }

  // The exported file's bytes.
  std::string Export(const std::string& name) {
    const std::string path = absl::StrCat(folder_, "/", name, ".npz");
    Cli({"export", "latest", "--out=" + path});
    return ReadFile(path);
  }

 private:
  std::string folder_;
  std::string cluster_;
  std::string job_;
  std::optional<Subprocess> up_;
  std::string log_;
};

// A worker that computes now, the first from `first` on; -1: none.
int ComputingWorker(const Seen& seen, int first) {
  for (int i = 0; i < kWorkers; ++i) {
    const auto found = seen.workers.find((first + i) % kWorkers);
    if (found != seen.workers.end() && found->second.state == "RUNNING") {
      return found->first;
    }
  }
  return -1;
}

struct Outcome {
  Seen end;
  std::string model;  // exported
};

void RunUndisturbed(const std::vector<std::string>& overrides, Outcome* outcome) {
  LocalCluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.Start(3000, ""));
  cluster.Submit(overrides);
  const auto end = cluster.Await(LocalCluster::Ended);
  ASSERT_TRUE(end.has_value());
  ASSERT_EQ(end->state, "SUCCEEDED");
  ASSERT_EQ(end->end_reason, "max_iterations");
  outcome->end = *end;
  outcome->model = cluster.Export("undisturbed");
  ASSERT_GT(outcome->model.size(), 10u * 784 * sizeof(float));
  cluster.Stop();
}

// Kills a computing worker in the middle of every `every`-th iteration's
// evaluation; each comes back by itself.
void RunWithKills(const std::vector<std::string>& overrides, int kills, int every,
                  Outcome* outcome) {
  LocalCluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.Start(1000, "compute_delay_ms=25"));
  cluster.Submit(overrides);
  std::map<int, pid_t> killed;  // the last of each worker
  for (int count = 0; count < kills; ++count) {
    int victim = -1;
    const std::optional<Seen> seen = cluster.Await([&](const Seen& now) {
      if (now.iteration < every * count || !now.mid_evaluation()) {
        return false;
      }
      victim = ComputingWorker(now, count % kWorkers);
      return victim >= 0 && now.workers.at(victim).pid != killed[victim];
    });
    ASSERT_TRUE(seen.has_value()) << "after " << count << " kills";
    killed[victim] = seen->workers.at(victim).pid;
    ASSERT_EQ(kill(killed[victim], SIGKILL), 0) << "worker/" << victim;
  }
  const auto end = cluster.Await(LocalCluster::Ended);
  ASSERT_TRUE(end.has_value());
  ASSERT_EQ(end->state, "SUCCEEDED");
  outcome->end = *end;
  outcome->model = cluster.Export("disturbed");
  cluster.Stop();
  int boxes = 0;
  for (size_t at = 0;
       (at = cluster.log().find("killed by signal 9 (SIGKILL)", at)) != std::string::npos; ++at) {
    ++boxes;
  }
  std::printf("%d kills, %d workers lost, %d copies, %.1f s; f %.9g, %d evaluations\n", boxes,
              end->workers_lost, end->backup, end->elapsed_s.back(), end->trace.back().f,
              static_cast<int>(end->trace.back().evaluations));
  EXPECT_EQ(boxes, kills);
  EXPECT_GE(end->workers_lost, kills);
}

void ExpectSameBits(const std::vector<std::string>& overrides, int kills, int every) {
  Outcome undisturbed, disturbed;
  ASSERT_NO_FATAL_FAILURE(RunUndisturbed(overrides, &undisturbed));
  ASSERT_NO_FATAL_FAILURE(RunWithKills(overrides, kills, every, &disturbed));
  EXPECT_EQ(disturbed.end.end_reason, undisturbed.end.end_reason);
  EXPECT_EQ(disturbed.end.trace, undisturbed.end.trace);
  EXPECT_TRUE(disturbed.model == undisturbed.model) << "the exported files differ";
}

TEST(SandblasterProcessTest, TwentyKillsIn50IterationsChangeNoBit) {
  ExpectSameBits({"sandblaster.max_iterations=50"}, 20, 2);
}

// Backup copies often replace what a killed worker held before its loss is
// noticed. Without them only the lost leases themselves come back.
TEST(SandblasterProcessTest, LostLeasesComeBackWithoutBackupCopies) {
  ExpectSameBits({"sandblaster.max_iterations=10", "sandblaster.no_backup_copies=true"}, 5, 2);
}

TEST(SandblasterProcessTest, AStoppedReplicaDelaysTheBatchByOneCopy) {
  constexpr double kEachS = 0.12;
  LocalCluster cluster;
  // It must not be lost: then its work would be leased again anyway.
  ASSERT_NO_FATAL_FAILURE(cluster.Start(60000, "compute_delay_ms=120"));
  cluster.Submit({"sandblaster.max_iterations=30"});
  // Until a stop hits a replica that holds the end of a batch.
  std::optional<double> stopped_s;
  double usual_s = 0;
  for (int attempt = 0; attempt < 5 && !stopped_s; ++attempt) {
    int victim = -1;
    const std::optional<Seen> before = cluster.Await([&](const Seen& now) {
      victim = ComputingWorker(now, attempt % kWorkers);
      return now.iteration >= 2 && now.mid_evaluation() && now.done >= kContributions - 10 &&
             victim >= 0;
    });
    ASSERT_TRUE(before.has_value());
    const pid_t pid = before->workers.at(victim).pid;
    ASSERT_EQ(kill(pid, SIGSTOP), 0);
    const std::optional<Seen> after =
        cluster.Await([&](const Seen& now) { return now.iteration > before->iteration; });
    ASSERT_EQ(kill(pid, SIGCONT), 0);
    ASSERT_TRUE(after.has_value());
    const size_t i = before->trace.size();  // the stopped iteration's point
    ASSERT_LT(i, after->trace.size());
    const bool one_evaluation = after->trace[i].evaluations == after->trace[i - 1].evaluations + 1;
    if (after->backup > before->backup && one_evaluation) {
      stopped_s = after->elapsed_s[i] - after->elapsed_s[i - 1];
      usual_s = (after->elapsed_s[i - 1] - after->elapsed_s[0]) /
                static_cast<double>(after->trace[i - 1].evaluations - after->trace[0].evaluations);
    }
  }
  ASSERT_TRUE(stopped_s.has_value()) << "no stop hit the end of a batch";
  std::printf("evaluation %.3f s, with a stopped replica %.3f s: %.2f contributions longer\n",
              usual_s, *stopped_s, (*stopped_s - usual_s) / kEachS);
  // The original is overdue after 1.25 contributions; then one copy. Without
  // copies it would be waited for until it expires: over a second.
  EXPECT_LE(*stopped_s, usual_s + 3 * kEachS);
  cluster.Cli({"cancel", "latest", "--wait"});
  cluster.Stop();
}

}  // namespace
}  // namespace monsoon
