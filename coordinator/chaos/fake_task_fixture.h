// Child processes that are called as tasks of a cluster.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"

namespace monsoon {

class FakeTasks {
 public:
  // In a folder of its own, with a program of each role.
  FakeTasks() : folder_(::testing::TempDir() + "/fake-tasks-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    char here[4096];
    const std::string target =
        absl::StrCat(getcwd(here, sizeof(here)), "/coordinator/chaos/fake_task");
    for (const char* role : {"coordinator", "ps_server", "worker"}) {
      EXPECT_EQ(symlink(target.c_str(), Program(role).c_str()), 0);
    }
  }

  std::string Program(const std::string& role) const { return absl::StrCat(folder_, "/", role); }

  // `argv[0]` is a role. The process goes with the object.
  Subprocess Start(std::vector<std::string> argv) {
    argv[0] = Program(argv[0]);
    absl::StatusOr<Subprocess> child = Subprocess::Start(argv, {});
    EXPECT_OK(child.status());
    return *std::move(child);
  }

  // Another program, which stops the child as a run of chaos does.
  static Subprocess StartStopper(pid_t pid, const std::string& task) {
    return *Subprocess::Start({"coordinator/chaos/fake_task", "--stop", absl::StrCat(pid), task},
                              {});
  }

 private:
  std::string folder_;
};

// Waits until the child has changed so: WSTOPPED or WCONTINUED, the next change of that kind
// that nobody has waited for. False after half a minute.
inline bool AwaitChange(const Subprocess& child, int change) {
  // Neither has a descriptor that could be polled for it.
  for (int i = 0; i < 30000; ++i) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child.pid()), &info, change | WNOHANG) != 0) {
      return false;
    }
    if (info.si_pid != 0) {
      return true;
    }
    poll(nullptr, 0, 1);
  }
  return false;
}

// Whether such a change is there that nobody has waited for.
inline bool HasChanged(const Subprocess& child, int change) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child.pid()), &info, change | WNOHANG) == 0 &&
         info.si_pid != 0;
}

}  // namespace monsoon
