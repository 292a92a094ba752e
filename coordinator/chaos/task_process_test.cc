#include "coordinator/chaos/task_process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "coordinator/chaos/fake_task_fixture.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

TaskView Task(const std::string& name, pid_t pid) {
  return {.name = name, .state = "UP", .pid = static_cast<uint32_t>(pid), .address = "unix:/a"};
}

class TaskProcessTest : public ::testing::Test {
 protected:
  TaskProcessTest() : processes_(*MakeTaskProcesses()) {}

  FakeTasks tasks_;
  std::unique_ptr<TaskProcesses> processes_;
};

TEST_F(TaskProcessTest, StopsAndContinues) {
  const Subprocess ps = tasks_.Start({"ps_server", "--task=0", "--cluster=c"});
  ASSERT_OK_AND_ASSIGN(const auto process, processes_->Open(Task("ps/0", ps.pid())));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(process->Stop());
    EXPECT_TRUE(AwaitChange(ps, WSTOPPED));
    ASSERT_OK(process->Continue());
    EXPECT_TRUE(AwaitChange(ps, WCONTINUED));
  }
}

TEST_F(TaskProcessTest, KillsAndTerminates) {
  Subprocess ps = tasks_.Start({"ps_server", "--task=0"});
  ASSERT_OK_AND_ASSIGN(auto process, processes_->Open(Task("ps/0", ps.pid())));
  ASSERT_OK(process->Kill());
  EXPECT_EQ(ps.Wait().code, SIGKILL);
  EXPECT_THAT(process->Kill(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("has ended")));
  EXPECT_THAT(process->Stop(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("ps/0 (pid ")));
  EXPECT_THAT(processes_->Open(Task("ps/0", ps.pid())),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("is not there")));
  Subprocess worker = tasks_.Start({"worker", "--task", "3"});
  ASSERT_OK_AND_ASSIGN(process, processes_->Open(Task("worker/3", worker.pid())));
  ASSERT_OK(process->Terminate());
  EXPECT_EQ(worker.Wait().code, SIGTERM);
}

// A zombie: its parent has not asked for its end.
TEST_F(TaskProcessTest, OneThatHasEndedIsNotThere) {
  Subprocess ps = tasks_.Start({"ps_server", "--task=0"});
  ps.Signal(SIGKILL);
  pollfd ended{.fd = ps.pidfd(), .events = POLLIN};
  ASSERT_EQ(poll(&ended, 1, 30000), 1);
  EXPECT_THAT(processes_->Open(Task("ps/0", ps.pid())),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("has ended")));
}

TEST_F(TaskProcessTest, AnotherProgramIsRefused) {
  EXPECT_THAT(processes_->Open(Task("ps/0", getpid())),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ps/0 (pid "), HasSubstr("is not signalled: that process"),
                             HasSubstr("task_process_test"), HasSubstr("ps_server --task=0"))));
  const Subprocess worker = tasks_.Start({"worker", "--task=1"});
  for (const char* name : {"ps/1", "worker/0", "worker/11", "coordinator/0"}) {
    EXPECT_THAT(processes_->Open(Task(name, worker.pid())),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("that process is `worker --task=1`")));
  }
  EXPECT_OK(processes_->Open(Task("worker/1", worker.pid())));
  EXPECT_FALSE(HasChanged(worker, WSTOPPED));
}

TEST_F(TaskProcessTest, OneElsewhereIsRefusedUnseen) {
  const Subprocess worker = tasks_.Start({"worker", "--task=1"});
  TaskView task = Task("worker/1", worker.pid());
  task.elsewhere = "its address is far";
  EXPECT_THAT(processes_->Open(task), StatusIs(absl::StatusCode::kFailedPrecondition,
                                               HasSubstr("its address is far; only tasks of")));
}

TEST_F(TaskProcessTest, NoPidIsNoProcess) { EXPECT_FALSE(processes_->Open(Task("ps/0", 0)).ok()); }

TEST_F(TaskProcessTest, WhatIsDroppedGoesOn) {
  const Subprocess ps = tasks_.Start({"ps_server", "--task=0"});
  ASSERT_OK_AND_ASSIGN(auto process, processes_->Open(Task("ps/0", ps.pid())));
  ASSERT_OK(process->Stop());
  ASSERT_TRUE(AwaitChange(ps, WSTOPPED));
  process.reset();
  EXPECT_TRUE(AwaitChange(ps, WCONTINUED));
}

// Waits until `child` says that it has stopped its victim.
void AwaitWord(const Subprocess& child) {
  std::string out;
  while (!absl::StrContains(out, "stopped\n")) {
    pollfd readable{.fd = child.stdout_fd(), .events = POLLIN};
    ASSERT_EQ(poll(&readable, 1, 30000), 1);
    ASSERT_TRUE(ReadAvailable(child.stdout_fd(), &out)) << out;
  }
}

// Whatever way a run ends that has stopped something.
TEST_F(TaskProcessTest, WhatARunHasStoppedGoesOnWhenItIsKilled) {
  const Subprocess ps = tasks_.Start({"ps_server", "--task=0"});
  for (const int signal : {SIGKILL, SIGTERM, SIGHUP}) {
    Subprocess run = FakeTasks::StartStopper(ps.pid(), "ps/0");
    ASSERT_NO_FATAL_FAILURE(AwaitWord(run));
    ASSERT_TRUE(AwaitChange(ps, WSTOPPED));
    EXPECT_FALSE(HasChanged(ps, WCONTINUED));
    // As a terminal does it: to the whole group, the guard included.
    ASSERT_EQ(signal == SIGKILL ? kill(run.pid(), signal) : kill(-run.pid(), signal), 0);
    EXPECT_TRUE(AwaitChange(ps, WCONTINUED));
    EXPECT_TRUE(run.Wait().signaled);
  }
}

TEST(CheckCommandLine, ATaskIsItsProgramAndItsNumber) {
  const auto is = [](const std::string& name, std::vector<std::string> argv, bool guest = false) {
    return CheckCommandLine({.name = name, .guest = guest}, argv).ok();
  };
  EXPECT_TRUE(is("ps/0", {"/bin/ps_server", "--cluster=x", "--task=0"}));
  EXPECT_TRUE(is("ps/12", {"ps_server", "--task", "12"}));
  EXPECT_TRUE(is("ps/1", {"ps_server", "--task=0", "--task=1"}));
  EXPECT_FALSE(is("ps/0", {"ps_server", "--task=0", "--task=1"}));
  EXPECT_FALSE(is("ps/0", {"ps_server", "--cluster=--task=0"}));
  EXPECT_FALSE(is("ps/0", {"ps_server"}));
  EXPECT_FALSE(is("ps/0", {"my_ps_server", "--task=0"}));
  EXPECT_FALSE(is("ps/0", {"worker", "--task=0"}));
  EXPECT_FALSE(is("ps/0", {}));
  EXPECT_TRUE(is("coordinator/0", {"x/coordinator", "serve", "--cluster=x"}));
  EXPECT_FALSE(is("coordinator/0", {"x/coordinator", "up", "serve"}));
  EXPECT_FALSE(is("coordinator/0", {"x/coordinator"}));
  EXPECT_TRUE(is("worker/7", {"worker", "--cluster=x"}, /*guest=*/true));
  EXPECT_FALSE(is("worker/7", {"worker", "--task=7"}, /*guest=*/true));
  EXPECT_FALSE(is("worker/7", {"worker", "--evaluate", "--model=x"}, /*guest=*/true));
  EXPECT_FALSE(is("worker/7", {"worker", "--cluster=x"}));
}

}  // namespace
}  // namespace monsoon
