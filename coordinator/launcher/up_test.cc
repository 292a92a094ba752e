// `up` with tasks that are shell scripts: real processes, judged by pid.

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(30);

// Runs what stands in before-ROLE-I, tells its pid, "listens", runs what
// stands in after-ROLE-I, and waits.
constexpr char kTaskScript[] = R"sh(#!/bin/sh
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

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

UniqueFd PidFd(pid_t pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// Whether the process has ended; zombies count as ended.
bool WaitGone(const UniqueFd& pidfd) {
  pollfd ended{.fd = pidfd.get(), .events = POLLIN};
  return poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) == 1;
}

bool Alive(const UniqueFd& pidfd) {
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
    // Not the whole folder: in a sandbox it is longer than the 107 bytes that an
    // address may have.
    sockets_ = absl::StrCat("unix-abstract:monsoon", folder_.substr(folder_.rfind('/') + 1), "-",
                            absl::ToUnixNanos(absl::Now()));
    WriteCluster(absl::StrCat(sockets_, "-c"));
  }

  void WriteCluster(const std::string& coordinator) {
    std::string text =
        absl::StrCat("name: \"fake\"\ncoordinator { address: \"", coordinator, "\" }\n");
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

TEST_F(UpTest, ReadyLinePrefixesAndCleanEnd) {
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_THAT(err_, HasSubstr(absl::StrCat("up: cluster \"fake\" is ready: coordinator ", sockets_,
                                           "-c, 1 ps, 2 workers\n")));
  const std::vector<UniqueFd> watched = WatchAll();
  up_->Signal(SIGINT);
  EXPECT_EQ(WaitEnd(), 130);
  ExpectAllGone(watched);
  EXPECT_THAT(out_, AllOf(HasSubstr("coordinator/0 | hello from coordinator-0\n"),
                          HasSubstr("ps/0 | hello from ps_server-0\n"),
                          HasSubstr("worker/1 | hello from worker-1\n")));
  EXPECT_THAT(err_, AllOf(HasSubstr("worker/0 | careful worker-0\n"), Not(HasSubstr("died"))));
  EXPECT_TRUE(PortFoldersEmpty());
}

TEST_F(UpTest, QuietKeepsTaskLinesBack) {
  StartUp("never", "--quiet");
  ASSERT_TRUE(WaitFor("is ready"));
  kill(TaskPid("worker-0"), SIGKILL);
  ASSERT_TRUE(WaitFor("+----\n"));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
  EXPECT_EQ(out_, "");
  EXPECT_THAT(err_, AllOf(Not(HasSubstr("worker/1 | careful")), HasSubstr("|   careful worker-0")));
}

TEST_F(UpTest, AKilledWorkerGetsABoxAndTheOthersGoOn) {
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  const pid_t pid = TaskPid("worker-1");
  kill(pid, SIGKILL);
  ASSERT_TRUE(WaitFor("+----\n"));
  EXPECT_THAT(err_,
              AllOf(HasSubstr(absl::StrCat("worker/1 died: killed by signal 9 (SIGKILL); pid ", pid,
                                           ", after ")),
                    HasSubstr("|   hello from worker-1\n"),
                    HasSubstr("| the job goes on without it (--restart=never)\n")));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Alive(watched[i])) << kTasks[i];
  }
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
  ExpectAllGone(watched);
}

TEST_F(UpTest, ADeadShardStopsTheCluster) {
  After("ps_server-0",
        "test -f " + folder_ + "/go || { read x < " + folder_ + "/gate; exit 7; }\n");
  ASSERT_EQ(mkfifo((folder_ + "/gate").c_str(), 0600), 0);
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  WriteText(folder_ + "/gate", "go\n");
  EXPECT_EQ(WaitEnd(), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr("ps/0 died: exited with code 7; pid "),
                          HasSubstr("cannot go on without it: stopping all tasks")));
  ExpectAllGone(watched);
}

TEST_F(UpTest, ADeadCoordinatorStopsTheCluster) {
  StartUp("workers");
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  kill(TaskPid("coordinator-0"), SIGABRT);
  EXPECT_EQ(WaitEnd(), 1);
  EXPECT_THAT(err_, HasSubstr("coordinator/0 died: killed by signal 6 (SIGABRT)"));
  ExpectAllGone(watched);
}

TEST_F(UpTest, StoppedTasksEndToo) {
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  kill(TaskPid("worker-0"), SIGSTOP);
  kill(TaskPid("ps_server-0"), SIGSTOP);
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
  ExpectAllGone(watched);
}

TEST_F(UpTest, ATaskThatIgnoresSigtermIsKilled) {
  Before("worker-1", "trap '' TERM\n");
  Before("coordinator-0", "trap '' TERM\n");
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  up_->Signal(SIGINT);
  EXPECT_EQ(WaitEnd(), 130);
  EXPECT_THAT(err_, AllOf(HasSubstr("up: worker/1 did not stop within 300ms: killing it"),
                          HasSubstr("up: coordinator/0 did not stop within 300ms")));
  ExpectAllGone(watched);
}

TEST_F(UpTest, ChildrenDieWithAKilledUp) {
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  kill(TaskPid("worker-1"), SIGSTOP);
  up_->Signal(SIGKILL);
  ExpectAllGone(watched);
  EXPECT_EQ(WaitEnd(), -1);
  EXPECT_FALSE(PortFoldersEmpty());

  // The next one takes what was left away.
  err_.clear();
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
  EXPECT_TRUE(PortFoldersEmpty());
}

TEST_F(UpTest, ChildrenDieWithTheKilledParentOfUp) {
  std::string line;
  for (const std::string& word : Command("never", "")) {
    absl::StrAppend(&line, word, " ");
  }
  ASSERT_OK_AND_ASSIGN(Subprocess shell, Subprocess::Start({"/bin/sh", "-c", line + "& wait"}, {}));
  up_.emplace(std::move(shell));
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  kill(TaskPid("ps_server-0"), SIGSTOP);
  up_->Signal(SIGKILL);
  ExpectAllGone(watched);
}

TEST_F(UpTest, RestartsWorkers) {
  Before("worker-0", "test -f " + folder_ + "/once || { touch " + folder_ + "/once; exit 3; }\n");
  StartUp("workers");
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_THAT(err_, AllOf(HasSubstr("worker/0 died: exited with code 3"),
                          HasSubstr("it starts again in 0.0 s, restart 1 (--restart=workers)"),
                          HasSubstr("up: worker/0 started again, pid "), HasSubstr("2 workers")));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, RestartsAWorkerAsOftenAsItIsKilled) {
  After("worker-0",
        "echo life >> " + folder_ + "/lives; echo life $(wc -l < " + folder_ + "/lives) >&2\n");
  StartUp("workers");
  ASSERT_TRUE(WaitFor("is ready"));
  const UniqueFd other = PidFd(TaskPid("worker-1"));
  for (int life = 1; life <= 3; ++life) {
    ASSERT_TRUE(WaitFor(absl::StrCat("worker/0 | life ", life, "\n")));
    kill(TaskPid("worker-0"), SIGKILL);
    ASSERT_TRUE(WaitFor(absl::StrCat(", restart ", life, " (--restart=workers)")));
  }
  ASSERT_TRUE(WaitFor("worker/0 | life 4\n"));
  EXPECT_TRUE(Alive(other));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, AWorkerThatNeverLivesDoesNotStopTheOthers) {
  Before("worker-1", "exit 3\n");
  StartUp("impatient-workers");
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_THAT(err_, AllOf(HasSubstr("worker/1 died: exited with code 3"), HasSubstr("1 worker\n"),
                          Not(HasSubstr("not listening"))));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, AShardIsNotRestartedWithWorkers) {
  StartUp("workers");
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  kill(TaskPid("ps_server-0"), SIGKILL);
  EXPECT_EQ(WaitEnd(), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr("ps/0 died: killed by signal 9"), Not(HasSubstr("restart 1"))));
  ExpectAllGone(watched);
}

TEST_F(UpTest, RestartsAShardOnlyWithAll) {
  Before("ps_server-0",
         "test -f " + folder_ + "/once || { touch " + folder_ + "/once; exit 3; }\n");
  StartUp("all");
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_THAT(err_, HasSubstr("up: ps/0 started again"));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, TasksThatDoNotListenAreNamed) {
  Before("worker-1", "exec sleep 1000\n");
  StartUp("impatient");
  EXPECT_EQ(WaitEnd(), 4);
  EXPECT_THAT(err_, HasSubstr(absl::StrCat("up: not listening after 1s: worker/1 (", sockets_,
                                           "-w1); stopping")));
}

TEST_F(UpTest, ABusyPortIsNamedBeforeAnythingStarts) {
  const UniqueFd holder(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(name);
  ASSERT_EQ(bind(holder.get(), reinterpret_cast<sockaddr*>(&name), length), 0);
  ASSERT_EQ(listen(holder.get(), 1), 0);
  ASSERT_EQ(getsockname(holder.get(), reinterpret_cast<sockaddr*>(&name), &length), 0);
  const std::string address = absl::StrCat("127.0.0.1:", ntohs(name.sin_port));
  WriteCluster(address);
  StartUp();
  EXPECT_EQ(WaitEnd(), 2);
  EXPECT_THAT(err_,
              AllOf(HasSubstr(absl::StrCat("coordinator/0: ", address, " is in use, held by ")),
                    HasSubstr(absl::StrCat("(pid ", getpid(), ")"))));
  EXPECT_EQ(out_, "");
  EXPECT_EQ(TaskPid("worker-0"), -1);
  EXPECT_TRUE(PortFoldersEmpty());
}

TEST_F(UpTest, AMissingBinaryIsNamed) {
  ASSERT_EQ(unlink((folder_ + "/worker/worker").c_str()), 0);
  StartUp();
  EXPECT_EQ(WaitEnd(), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr(folder_ + "/worker/worker"), HasSubstr("--bin_dir")));
  EXPECT_EQ(TaskPid("ps_server-0"), -1);
}

}  // namespace
}  // namespace monsoon
