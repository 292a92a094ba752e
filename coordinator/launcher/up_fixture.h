// `up` with tasks that are shell scripts: real processes, judged by pid.
//
// Thread safety: none.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/process/subprocess.h"
#include "common/process/unique_fd.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"

namespace monsoon {

inline constexpr absl::Duration kPatience = absl::Seconds(30);

// Runs what stands in before-ROLE-I, tells its pid, "listens", runs what
// stands in after-ROLE-I, and waits.
inline constexpr char kTaskScript[] = R"sh(#!/bin/sh
task=0
for a in "$@"; do
  case $a in
    --port_file=*) port=${a#*=} ;;
    --task=*) task=${a#*=} ;;
  esac
done
me=ROLE-$task
echo "hello from $me"
echo "careful $me" >&2
test -f DIR/before-$me && . DIR/before-$me
echo $$ > DIR/pid-$me.new && mv DIR/pid-$me.new DIR/pid-$me
echo listening > $port
test -f DIR/after-$me && . DIR/after-$me
exec sleep 1000
)sh";

inline std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline UniqueFd PidFd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

// Whether the process has ended; zombies count as ended.
inline bool WaitGone(const UniqueFd& pidfd) {
  pollfd ended{.fd = pidfd.get(), .events = POLLIN};
  return poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) == 1;
}

inline bool Alive(const UniqueFd& pidfd) {
  pollfd ended{.fd = pidfd.get(), .events = POLLIN};
  return poll(&ended, 1, 0) == 0;
}

class UpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/up-XXXXXX");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    for (const std::string role : {"coordinator", "ps_server", "worker"}) {
      const std::string bin = absl::StrCat(folder_, "/", role);
      ASSERT_EQ(mkdir(bin.c_str(), 0700), 0);
      const std::string script = absl::StrCat(bin, "/", role);
      WriteText(script, Replace(Replace(kTaskScript, "ROLE", role), "DIR", folder_));
      ASSERT_EQ(chmod(script.c_str(), 0700), 0);
    }
    port_folders_ = folder_ + "/tmp";
    ASSERT_EQ(mkdir(port_folders_.c_str(), 0700), 0);
    setenv("TMPDIR", port_folders_.c_str(), 1);
    sockets_ = testing::UniqueSocketAddress();
    WriteCluster(absl::StrCat(sockets_, "-c"));
  }

  void WriteCluster(const std::string& coordinator) {
    std::string text = absl::StrCat(
        "name: \"fake\" state_dir: \"state\"\ncoordinator { address: \"", coordinator, "\" }\n");
    absl::StrAppend(&text, "ps { address: \"", sockets_, "-p\" }\n");
    for (int i = 0; i < 2; ++i) {
      absl::StrAppend(&text, "worker { address: \"", sockets_, "-w", i, "\" }\n");
    }
    WriteText(ClusterPath(), text);
  }

  std::string ClusterPath() const { return folder_ + "/cluster.textproto"; }

  void Before(const std::string& task, const std::string& script) {
    WriteText(absl::StrCat(folder_, "/before-", task), script);
  }
  void After(const std::string& task, const std::string& script) {
    WriteText(absl::StrCat(folder_, "/after-", task), script);
  }

  std::vector<std::string> Command(const std::string& policy, const std::string& more) const {
    std::vector<std::string> argv = {"coordinator/launcher/up_test_main", ClusterPath(), folder_,
                                     policy};
    if (!more.empty()) {
      argv.push_back(more);
    }
    return argv;
  }

  void StartUp(const std::string& policy = "never", const std::string& more = "") {
    ASSERT_OK_AND_ASSIGN(Subprocess up, Subprocess::Start(Command(policy, more), {}));
    up_.emplace(std::move(up));
  }

  // Reads what `up` writes until its messages hold `text`.
  ::testing::AssertionResult WaitFor(const std::string& text) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!absl::StrContains(err_, text)) {
      if (absl::Now() > deadline || !Pump(deadline)) {
        return ::testing::AssertionFailure() << "no \"" << text << "\" in: " << err_;
      }
    }
    return ::testing::AssertionSuccess();
  }

  // Waits for the end of `up` and gives its exit code; -1: it was killed.
  int WaitEnd() {
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline && Pump(deadline)) {
    }
    const std::optional<ProcessEnd> end = up_->TryWait();
    EXPECT_TRUE(end.has_value()) << "up still runs; it said: " << err_;
    return !end.has_value() || end->signaled ? -1 : end->code;
  }

  pid_t TaskPid(const std::string& task) const {
    pid_t pid = -1;
    std::ifstream(absl::StrCat(folder_, "/pid-", task)) >> pid;
    return pid;
  }

  // Call after the ready line: then all pids are known.
  std::vector<UniqueFd> WatchAll() {
    std::vector<UniqueFd> watched;
    for (const char* task : kTasks) {
      watched.push_back(PidFd(TaskPid(task)));
      EXPECT_TRUE(watched.back().valid()) << task;
    }
    return watched;
  }

  void ExpectAllGone(const std::vector<UniqueFd>& watched) {
    for (size_t i = 0; i < watched.size(); ++i) {
      EXPECT_TRUE(WaitGone(watched[i])) << kTasks[i];
    }
  }

  bool PortFoldersEmpty() const { return rmdir(port_folders_.c_str()) == 0; }

  static constexpr const char* kTasks[] = {"coordinator-0", "ps_server-0", "worker-0", "worker-1"};

  std::string folder_;
  std::string sockets_;  // what the tasks' addresses begin with
  std::string port_folders_;
  std::optional<Subprocess> up_;
  std::string out_;
  std::string err_;

 private:
  // False at the end of `up`.
  bool Pump(absl::Time deadline) {
    pollfd fds[] = {{.fd = up_->stdout_fd(), .events = POLLIN},
                    {.fd = up_->stderr_fd(), .events = POLLIN},
                    {.fd = up_->pidfd(), .events = POLLIN}};
    poll(fds, 3, static_cast<int>(absl::ToInt64Milliseconds(deadline - absl::Now())) + 1);
    const bool ended = fds[2].revents != 0;
    if (up_->stdout_fd() >= 0 && !ReadAvailable(up_->stdout_fd(), &out_)) {
      up_->CloseStdout();
    }
    if (up_->stderr_fd() >= 0 && !ReadAvailable(up_->stderr_fd(), &err_)) {
      up_->CloseStderr();
    }
    return !ended;
  }
};

}  // namespace monsoon
