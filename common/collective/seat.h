// Seat: a member's core between the threads that serve its peers and the one that makes its calls.
//
// Lock order: `mutex` and `wake_mutex` are never held together.
#pragma once

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/collective/member_core.h"
#include "common/transport/choosing_transport.h"

namespace monsoon {

struct Seat {
  Seat(const Group& group, ChoosingTransport* transport)
      : callers(group.callers), core(group), transport(transport) {}

  // The member's thread, which waits for its transport, has something to do.
  void Wake() {
    MutexLock lock(&wake_mutex);
    if (transport != nullptr) {
      transport->Wake();
    }
  }

  const std::vector<std::string> callers;  // of the group

  Mutex mutex;
  MemberCore core ABSL_GUARDED_BY(mutex);
  CondVar idle;  // MemberCore::idle after a failure

  Mutex wake_mutex;
  ChoosingTransport* transport ABSL_GUARDED_BY(wake_mutex);  // null: the member has left
};

}  // namespace monsoon
