#include "common/process/background_thread.h"

#include <sched.h>

namespace monsoon {

void DoNotPreempt() {
  // Batch threads get their share of the processor as others do, but a wake-up
  // of theirs preempts nobody. It needs no privilege. Threads that this one
  // starts are as others.
  const sched_param parameters = {};
  static_cast<void>(sched_setscheduler(/*pid=*/0, SCHED_BATCH | SCHED_RESET_ON_FORK, &parameters));
}

}  // namespace monsoon
