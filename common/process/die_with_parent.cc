#include "common/process/die_with_parent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

namespace monsoon {

void DieWithParent() {
  const pid_t parent = getppid();
  // Cannot fail for a valid signal (prctl(2)).
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before: then init (or a subreaper) adopted us.
  if (parent == 1 || getppid() != parent) {
    _exit(128 + SIGKILL);
  }
}

bool WantsToDieWithParent(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--die_with_parent") == 0 ||
        strcmp(argv[i], "--die_with_parent=true") == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace monsoon
