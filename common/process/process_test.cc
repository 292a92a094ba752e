#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/process/signal_fd.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int kDeadlineMs = 20000;

bool WaitReadable(int fd, int timeout_ms = kDeadlineMs) {
  pollfd readable{.fd = fd, .events = POLLIN};
  return poll(&readable, 1, timeout_ms) == 1;
}

Subprocess Shell(const std::string& script, Subprocess::Options options = {}) {
  return *Subprocess::Start({"/bin/sh", "-c", script}, options);
}

TEST(SubprocessTest, CapturesOutputAndCode) {
  ASSERT_OK_AND_ASSIGN(const CapturedRun run,
                       RunAndCapture({"/bin/sh", "-c", "echo one; sleep 0.05; echo two; exit 3"}));
  EXPECT_EQ(run.output, "one\ntwo\n");
  EXPECT_FALSE(run.end.ok());
  EXPECT_EQ(run.end.Describe(), "exited with code 3");
}

TEST(SubprocessTest, ErrorsNameTheProgram) {
  EXPECT_THAT(RunAndCapture({"/no/such/program"}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/program: cannot run")));
  EXPECT_THAT(RunAndCapture({"/etc/passwd"}).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("/etc/passwd")));
}

TEST(SubprocessTest, PidfdTellsOfASignal) {
  Subprocess child = Shell("exec sleep 1000");
  EXPECT_FALSE(child.TryWait().has_value());
  child.Signal(SIGKILL);
  ASSERT_TRUE(WaitReadable(child.pidfd()));
  ASSERT_TRUE(child.TryWait().has_value());
  EXPECT_EQ(child.TryWait()->Describe(), "killed by signal 9 (SIGKILL)");
  child.Signal(SIGKILL);  // nobody is hit
}

TEST(SubprocessTest, DestructionKillsAStoppedChild) {
  UniqueFd watch;
  {
    const Subprocess child = Shell("kill -STOP $$; exec sleep 1000");
    watch.reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid(), 0)));
    ASSERT_TRUE(watch.valid());
  }
  EXPECT_TRUE(WaitReadable(watch.get(), 0));
}

TEST(SubprocessTest, TheChildHasDefaultSignalsAndNoInput) {
  ASSERT_OK_AND_ASSIGN(SignalFd signals, SignalFd::Create({SIGUSR1}));
  signal(SIGPIPE, SIG_IGN);
  ASSERT_OK_AND_ASSIGN(
      const CapturedRun run,
      RunAndCapture(
          {"/bin/sh", "-c", "cat; awk '/SigBlk|SigIgn/ { print $2 }' /proc/self/status"}));
  unsigned long long blocked = 1;
  unsigned long long ignored = ~0ull;
  ASSERT_EQ(sscanf(run.output.c_str(), "%llx\n%llx", &blocked, &ignored), 2) << run.output;
  EXPECT_EQ(blocked, 0u);
  EXPECT_EQ(ignored & (1ull << (SIGPIPE - 1)), 0u);
}

// A middle process starts a stopped grandchild and is killed: the kernel takes
// the grandchild along.
TEST(SubprocessTest, TheChildDiesWithItsParent) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    absl::StatusOr<Subprocess> child =
        Subprocess::Start({"/bin/sh", "-c", "kill -STOP $$; exec sleep 1000"}, {});
    const pid_t pid = child.ok() ? child->pid() : -1;
    if (write(fds[1], &pid, sizeof(pid)) == sizeof(pid)) {
      pause();
    }
    _exit(1);
  }
  pid_t grandchild = -1;
  ASSERT_TRUE(WaitReadable(fds[0]));
  ASSERT_EQ(read(fds[0], &grandchild, sizeof(grandchild)), ssize_t{sizeof(grandchild)});
  ASSERT_GT(grandchild, 0);
  const UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, grandchild, 0)));
  ASSERT_TRUE(watch.valid());
  kill(middle, SIGKILL);
  EXPECT_TRUE(WaitReadable(watch.get()));
}

TEST(SignalFdTest, DeliversAndTimesOut) {
  ASSERT_OK_AND_ASSIGN(SignalFd signals, SignalFd::Create({SIGUSR2}));
  EXPECT_EQ(signals.WaitFor(absl::Milliseconds(1)), std::nullopt);
  kill(getpid(), SIGUSR2);
  EXPECT_EQ(signals.WaitFor(absl::Seconds(20)), SIGUSR2);
  EXPECT_EQ(signals.Next(), std::nullopt);
}

}  // namespace
}  // namespace monsoon
