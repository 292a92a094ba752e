// What `up` starts again, after how long, and when it gives a task up.

#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/file_lock.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "coordinator/launcher/up_fixture.h"
#include "coordinator/launcher/up_lock.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(UpTest, RestartsWorkers) {
  Before("worker-0", "test -f " + folder_ + "/once || { touch " + folder_ + "/once; exit 3; }\n");
  StartUp("workers");
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_THAT(err_, AllOf(HasSubstr("worker/0 died: exited with code 3"),
                          HasSubstr("it starts again in 0.01 s, restart 1 (--restart=workers)"),
                          HasSubstr("up: worker/0 started again, pid "),
                          HasSubstr("2 workers (--restart=workers)\n")));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, AWorkerThatLeavesStaysAway) {
  Before("worker-0", "trap 'kill $!; exit 0' TERM\n");
  After("worker-0", "sleep 1000 & wait $!\n");
  StartUp("workers");
  ASSERT_TRUE(WaitFor("is ready"));
  const UniqueFd other = PidFd(TaskPid("worker-1"));
  kill(TaskPid("worker-0"), SIGTERM);
  ASSERT_TRUE(WaitFor("has left as it was told; it is not started again"));
  EXPECT_THAT(err_, Not(HasSubstr("worker/0 died")));
  EXPECT_TRUE(Alive(other));
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
  EXPECT_THAT(err_,
              AllOf(HasSubstr("worker/1 died: exited with code 3"),
                    HasSubstr("1 worker (--restart=workers)\n"), Not(HasSubstr("not listening"))));
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

TEST_F(UpTest, StartsAKilledShardAgainByDefaultAndGoesOn) {
  After("ps_server-0",
        "echo life >> " + folder_ + "/lives; echo life $(wc -l < " + folder_ + "/lives) >&2\n");
  StartUp("default");
  ASSERT_TRUE(WaitFor("2 workers (--restart=all)\n"));
  ASSERT_TRUE(WaitFor("ps/0 | life 1\n"));
  const std::vector<UniqueFd> watched = WatchAll();
  const pid_t pid = TaskPid("ps_server-0");
  kill(pid, SIGKILL);
  ASSERT_TRUE(WaitFor("ps/0 | life 2\n"));
  EXPECT_NE(TaskPid("ps_server-0"), pid);
  EXPECT_THAT(err_, AllOf(HasSubstr("ps/0 died: killed by signal 9 (SIGKILL)"),
                          HasSubstr("| it starts again in 0.25 s, restart 1 (--restart=all); "
                                    "death 1 of 5 in a row\n"),
                          HasSubstr("up: ps/0 started again, pid ")));
  for (const int other : {0, 2, 3}) {
    EXPECT_TRUE(Alive(watched[other])) << kTasks[other];
  }
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, StartsAWorkerAgainAfterLonger) {
  Before("worker-0", "test -f " + folder_ + "/once || { touch " + folder_ + "/once; exit 3; }\n");
  StartUp("default");
  ASSERT_TRUE(WaitFor("2 workers (--restart=all)\n"));
  EXPECT_THAT(err_, HasSubstr("it starts again in 1 s, restart 1 (--restart=all)"));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, StartsTheCoordinatorAgainWithAll) {
  Before("coordinator-0",
         "test -f " + folder_ + "/once || { touch " + folder_ + "/once; exit 3; }\n");
  StartUp("all");
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_THAT(err_, HasSubstr("up: coordinator/0 started again"));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

TEST_F(UpTest, GivesUpAShardThatDiesFiveTimesInARow) {
  Before("ps_server-0", "echo life >> " + folder_ + "/lives; exit 3\n");
  StartUp("all");
  EXPECT_EQ(WaitEnd(), 1);
  EXPECT_EQ(ReadText(folder_ + "/lives"), "life\nlife\nlife\nlife\nlife\n");
  EXPECT_THAT(err_, AllOf(HasSubstr("+---- ps/0 died: exited with code 3"),
                          HasSubstr("restart 4 (--restart=all); death 4 of 5 in a row\n"),
                          HasSubstr("| it has died 5 times in a row and is not started again "
                                    "(--restart_limit=5): stopping all tasks\n"),
                          Not(HasSubstr("restart 5"))));
  EXPECT_TRUE(PortFoldersEmpty());
}

TEST_F(UpTest, GivesUpAWorkerThatDiesFiveTimesInARowAndGoesOn) {
  Before("worker-1", "echo life >> " + folder_ + "/lives; exit 3\n");
  StartUp("all");
  ASSERT_TRUE(WaitFor("1 worker (--restart=all)\n"));
  EXPECT_EQ(ReadText(folder_ + "/lives"), "life\nlife\nlife\nlife\nlife\n");
  EXPECT_THAT(err_, HasSubstr("| it has died 5 times in a row and is not started again "
                              "(--restart_limit=5): the job goes on without it\n"));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
}

// Through all lives of the coordinator, so that commands wait for the next one.
TEST_F(UpTest, ShowsThatItRunsTheCoordinator) {
  const std::string lock = UpLockPath(folder_ + "/state");
  After("coordinator-0", Replace(R"sh(
echo life >> DIR/lives
test $(wc -l < DIR/lives) -gt 3 || exit 3
)sh",
                                 "DIR", folder_));
  EXPECT_FALSE(FileLock::IsShared(lock));
  StartUp("all");
  ASSERT_TRUE(WaitFor("coordinator/0 started again"));
  EXPECT_TRUE(FileLock::IsShared(lock));
  ASSERT_TRUE(WaitFor("is ready"));
  EXPECT_TRUE(FileLock::IsShared(lock));
  up_->Signal(SIGTERM);
  EXPECT_EQ(WaitEnd(), 143);
  EXPECT_FALSE(FileLock::IsShared(lock));
}

class UpLivesTest : public UpTest {
 protected:
  // The shard dies seven times, each time after `script`, in which $n counts its lives and
  // DIR is the folder; none of them counts.
  void ExpectNoneCounts(const std::string& script) {
    Before("ps_server-0", Replace(absl::StrCat("\necho life >> DIR/lives\n"
                                               "n=$(wc -l < DIR/lives)\n",
                                               script),
                                  "DIR", folder_));
    StartUp("all");
    ASSERT_TRUE(WaitFor("is ready"));
    EXPECT_THAT(err_, AllOf(HasSubstr("| it starts again in 0.01 s, restart 7 (--restart=all)\n"),
                            Not(HasSubstr("in a row"))));
    up_->Signal(SIGTERM);
    EXPECT_EQ(WaitEnd(), 143);
  }
};

// Each leaves a part on the disk.
TEST_F(UpLivesTest, NoneCountsThatMadeACheckpoint) {
  ExpectNoneCounts(R"sh(
job=DIR/state/jobs/j-1@1
mkdir -p $job
test $n -gt 7 || { : > $job/ps-0-of-1.g$n.e$n.manifest; exit 3; }
)sh");
}

// The same, and each time the job is deleted before the shard dies.
TEST_F(UpLivesTest, NoneCountsThatMadeACheckpointOfAJobDeletedSince) {
  ExpectNoneCounts(R"sh(
mkdir -p DIR/state/ps-0
test $n -gt 7 || { echo $n > DIR/state/ps-0/written; exit 3; }
)sh");
}

TEST_F(UpTest, GivesUpAShardThatCannotBeStarted) {
  StartUp("all");
  ASSERT_TRUE(WaitFor("is ready"));
  const std::vector<UniqueFd> watched = WatchAll();
  ASSERT_EQ(unlink((folder_ + "/ps_server/ps_server").c_str()), 0);
  kill(TaskPid("ps_server-0"), SIGKILL);
  EXPECT_EQ(WaitEnd(), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr("up: ps/0 cannot be started again: "),
                          HasSubstr("up: ps/0: it has died 5 times in a row and is not started "
                                    "again (--restart_limit=5): stopping all tasks\n")));
  ExpectAllGone(watched);
}

}  // namespace
}  // namespace monsoon
