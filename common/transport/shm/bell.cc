#include "common/transport/shm/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace monsoon {

void Ring(Bell* bell) {
  bell->rings.fetch_add(1);
  // Whoever else rings until the waiter is awake need not wake it again.
  if (bell->sleeping.load() != 0 && bell->sleeping.exchange(0) != 0) {
    // Not private: the waiter may be another process.
    syscall(SYS_futex, &bell->sleeping, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

namespace internal {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void SleepUntilRing(Bell* bell, absl::Duration timeout) {
  const timespec relative = absl::ToTimespec(timeout);
  syscall(SYS_futex, &bell->sleeping, FUTEX_WAIT, 1, &relative, nullptr, 0);
}

}  // namespace internal
}  // namespace monsoon
