// deploy/demo.sh with real daemons, ended in the middle of training: whatever
// ends it, and whoever is stopped then, no process and no listener is left.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/process/subprocess.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "tests/cluster/test_cluster.h"

namespace monsoon {
namespace {

using testing::PollUntil;
using testing::UniqueName;

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr int kTasks = 4;  // coordinator, ps, two workers

std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Processes with `text` in their environment as they were started: the script
// and all that it started, down to the daemons. What has ended has none.
std::vector<pid_t> ProcessesWith(const std::string& text) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &pid) &&
        absl::StrContains(ReadWhole(entry.path() / "environ"), text)) {
      found.push_back(pid);
    }
  }
  return found;
}

// Readable when the process has ended, its sockets included.
UniqueFd PidFd(pid_t pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

bool HasEnded(const UniqueFd& pidfd) {
  pollfd ended{.fd = pidfd.get(), .events = POLLIN};
  return !pidfd.valid() || poll(&ended, 1, 0) == 1;
}

std::string CommandLine(pid_t pid) {
  return ReadWhole(absl::StrCat("/proc/", pid, "/cmdline"));  // words end with NUL
}

// A socket that listens on the port, 0 for any; invalid when somebody else
// does. Connections that linger do not matter.
UniqueFd Listen(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0 ||
      listen(fd.get(), 1) != 0) {
    return UniqueFd();
  }
  return fd;
}

std::vector<uint16_t> FreePorts(int count) {
  std::vector<UniqueFd> held;
  std::vector<uint16_t> ports;
  for (int i = 0; i < count; ++i) {
    held.push_back(Listen(0));
    sockaddr_in name{};
    socklen_t length = sizeof(name);
    EXPECT_EQ(getsockname(held.back().get(), reinterpret_cast<sockaddr*>(&name), &length), 0);
    ports.push_back(ntohs(name.sin_port));
  }
  return ports;
}

struct Ending {
  const char* name;
  const char* target;  // who gets the signal: a word of its command line
  int signal;
  const char* stopped;      // who is stopped before, likewise; "": nobody
  std::optional<int> code;  // the script's exit code; unset: just not 0
};

void PrintTo(const Ending& ending, std::ostream* out) { *out << ending.name; }

constexpr char kScript[] = "deploy/demo.sh";
constexpr char kUp[] = "/coordinator/coordinator";
constexpr char kWorker[] = "/worker/worker";
constexpr char kShard[] = "/ps_server/ps_server";

class DemoEndTest : public ::testing::TestWithParam<Ending> {
 protected:
  void SetUp() override {
    const std::string name = UniqueName();
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
    std::filesystem::create_directory(folder_);
    cluster_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name, ".textproto");
    ports_ = FreePorts(kTasks);
    const auto address = [this](int i) { return absl::StrCat("127.0.0.1:", ports_[i]); };
    std::ofstream(cluster_) << "name: \"" << name << "\"\n"
                            << "coordinator { address: \"" << address(0) << "\" }\n"
                            << "ps { address: \"" << address(1) << "\" }\n"
                            << "worker { address: \"" << address(2) << "\" device: CPU }\n"
                            << "worker { address: \"" << address(3) << "\" device: CPU }\n";
    auto demo = Subprocess::Start(
        {"/usr/bin/env", "MONSOON_DEMO_CLUSTER=" + cluster_,
         absl::StrCat("MONSOON_DEMO_BIN=", std::filesystem::current_path().string()),
         "TMPDIR=" + folder_, "MONSOON_CREDENTIALS=" + folder_ + ".credentials", "/bin/bash",
         kScript, "--epochs=50"},
        {});
    ASSERT_OK(demo.status());
    demo_.emplace(*std::move(demo));
    ASSERT_TRUE(PollUntil(kPatience,
                          [this] {
                            Read();
                            return Trains() || demo_->TryWait().has_value();
                          }))
        << out_ << err_;
    ASSERT_TRUE(Trains()) << out_ << err_;
  }

  void Read() {
    ReadAvailable(demo_->stdout_fd(), &out_);
    ReadAvailable(demo_->stderr_fd(), &err_);
  }

  // Whether the watched job has made a step.
  bool Trains() const {
    const size_t at = out_.find(" state=RUNNING ");
    const size_t step = at == std::string::npos ? at : out_.rfind(" step=");
    return step != std::string::npos && step + 6 < out_.size() && out_[step + 6] != '0' &&
           std::isdigit(out_[step + 6]);
  }

  std::vector<pid_t> Processes() const { return ProcessesWith(cluster_); }

  // The first of them with `word` in its command line, for a daemon the task 0.
  pid_t Find(const std::string& word) const {
    for (const pid_t pid : Processes()) {
      const std::string line = CommandLine(pid);
      if (absl::StrContains(line, word) &&
          (word != kUp || absl::StrContains(line, std::string("\0up\0", 4))) &&
          !absl::StrContains(line, "--task=1")) {
        return pid;
      }
    }
    ADD_FAILURE() << "no process " << word;
    return -1;
  }

  std::string folder_;
  std::string cluster_;
  std::vector<uint16_t> ports_;
  std::optional<Subprocess> demo_;
  std::string out_;
  std::string err_;
};

TEST_P(DemoEndTest, LeavesNothingBehind) {
  const Ending& ending = GetParam();
  // bash, up, four daemons, watch and the sampler.
  ASSERT_GE(Processes().size(), 8u);
  std::vector<UniqueFd> watched;
  for (const pid_t pid : Processes()) watched.push_back(PidFd(pid));
  for (const uint16_t port : ports_) {
    EXPECT_FALSE(Listen(port).valid()) << port;
  }
  const pid_t target = ending.target == kScript ? demo_->pid() : Find(ending.target);
  ASSERT_GT(target, 1);
  if (*ending.stopped != '\0') {
    const pid_t stopped = Find(ending.stopped);
    ASSERT_GT(stopped, 1);
    ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  }
  ASSERT_EQ(kill(target, ending.signal), 0);

  const bool gone = PollUntil(kPatience, [&] {
    Read();
    return demo_->TryWait().has_value() && std::all_of(watched.begin(), watched.end(), HasEnded) &&
           Processes().empty();
  });
  EXPECT_TRUE(gone) << out_ << err_;
  for (const pid_t pid : Processes()) {
    ADD_FAILURE() << "left: " << pid << " " << CommandLine(pid);
    kill(pid, SIGKILL);
  }
  for (const uint16_t port : ports_) {
    EXPECT_TRUE(Listen(port).valid()) << "port " << port << " is still held";
  }
  const ProcessEnd end = demo_->TryWait().value_or(ProcessEnd{});
  if (target == demo_->pid() && ending.signal == SIGKILL) {
    EXPECT_TRUE(end.signaled);
    return;
  }
  EXPECT_FALSE(end.signaled) << end.Describe();
  EXPECT_NE(end.code, 0) << out_ << err_;
  EXPECT_EQ(end.code, ending.code.value_or(end.code)) << err_;
  if (ending.signal != SIGKILL) {
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "the script's or up's folder is left";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, DemoEndTest,
    ::testing::Values(Ending{"Interrupted", kScript, SIGINT, "", 130},
                      Ending{"TerminatedWithAStoppedWorker", kScript, SIGTERM, kWorker, 143},
                      Ending{"KilledWithAStoppedShard", kScript, SIGKILL, kShard, {}},
                      Ending{"KilledWithAStoppedWorker", kScript, SIGKILL, kWorker, {}},
                      Ending{"UpInterrupted", kUp, SIGINT, "", {}},
                      Ending{"UpTerminatedWithAStoppedShard", kUp, SIGTERM, kShard, {}},
                      Ending{"UpKilledWithAStoppedWorker", kUp, SIGKILL, kWorker, {}},
                      Ending{"UpKilledWithAStoppedShard", kUp, SIGKILL, kShard, {}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace monsoon
