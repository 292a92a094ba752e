#include "common/testing/another_user.h"

#include <sys/wait.h>
#include <unistd.h>

namespace monsoon::testing {
namespace {

constexpr int kStillTheOldUser = 100;

}  // namespace

bool CanBeAnotherUser() {
  return RunAsAnotherUser([] { return 0; }) == 0;
}

int RunAsAnotherUser(absl::FunctionRef<int()> act) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(setgid(kAnotherUser) == 0 && setuid(kAnotherUser) == 0 ? act() : kStillTheOldUser);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) == kStillTheOldUser) {
    return -1;
  }
  return WEXITSTATUS(status);
}

}  // namespace monsoon::testing
