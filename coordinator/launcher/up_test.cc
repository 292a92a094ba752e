// `up` from its start to its end; up_restart_test.cc has what it starts again.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/process/subprocess.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "coordinator/launcher/up_fixture.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(UpTest, ReadyLinePrefixesAndCleanEnd) {
  StartUp();
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_THAT(err_, HasSubstr(absl::StrCat("up: cluster \"fake\" is ready: coordinator ", sockets_,
                                           "-c, 1 ps, 2 workers (--restart=never)\n")));
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
                          HasSubstr("up: coordinator/0 did not stop within 500ms")));
  ExpectAllGone(watched);
}

TEST_F(UpTest, StopsWorkersBeforeTheOthers) {
  constexpr char kOnTerm[] = "trap 'kill $!; LAST_WORDS; echo ROLE >> DIR/order; exit 0' TERM\n";
  for (const std::string task : kTasks) {
    const bool worker = absl::StartsWith(task, "worker");
    const std::string gate = absl::StrCat(folder_, "/gate-", task);
    ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
    const std::string last_words = worker ? "echo leaving >&2; read x < " + gate : ":";
    Before(task, Replace(Replace(Replace(kOnTerm, "LAST_WORDS", last_words), "ROLE",
                                 worker ? "worker" : "other"),
                         "DIR", folder_));
    After(task, "sleep 1000 & wait $!\n");  // not in its place: it has the trap
  }
  StartUp("default");
  ASSERT_TRUE(WaitFor("is ready"));
  up_->Signal(SIGTERM);
  ASSERT_TRUE(WaitFor("worker/0 | leaving\n"));
  ASSERT_TRUE(WaitFor("worker/1 | leaving\n"));
  WriteText(folder_ + "/gate-worker-0", "go\n");
  WriteText(folder_ + "/gate-worker-1", "go\n");
  EXPECT_EQ(WaitEnd(), 143);
  EXPECT_EQ(ReadText(folder_ + "/order"), "worker\nworker\nother\nother\n");
  EXPECT_THAT(err_, Not(HasSubstr("did not stop")));
}

// Long before the time that the tasks have.
TEST_F(UpTest, ASecondSignalKillsAndNamesWhatItKills) {
  Before("worker-1", "trap '' TERM\n");
  StartUp("default");
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  up_->Signal(SIGTERM);
  ASSERT_TRUE(WaitFor("once more to kill it"));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
  ExpectAllGone(watched);
  EXPECT_THAT(err_, ContainsRegex("up: killing coordinator/0, ps/0, (worker/0, )?worker/1\n"));
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
