#include "tests/cluster/poll_until.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace monsoon::testing {

bool PollUntil(absl::Duration timeout, const std::function<bool()>& done) {
  Mutex mutex;
  CondVar never;
  const absl::Duration deadline = Clock::Real()->Now() + timeout;
  while (!done()) {
    if (Clock::Real()->Now() > deadline) {
      return false;
    }
    MutexLock lock(&mutex);
    never.WaitFor(&mutex, absl::Milliseconds(5));
  }
  return true;
}

}  // namespace monsoon::testing
