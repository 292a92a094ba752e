// SessionEnd: what became of a session; and SessionRunner, which runs one from an
// assignment to that.
#pragma once

#include <string>

#include "proto/coordinator.pb.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

struct SessionEnd {
  enum class Kind {
    kFinished,    // the coordinator said so
    kStopped,     // the coordinator took the session away
    kLost,        // refused by a shard or the coordinator: join again
    kDrained,     // this worker leaves
    kFailed,      // told to the coordinator, see `failure`
    kDeviceLost,  // likewise, and this process cannot compute any more
  };
  Kind kind = Kind::kFinished;
  ReportFailureRequest::Kind failure = ReportFailureRequest::REPLICA;
  std::string message;
};

// Thread safety: none; one thread, which becomes the compute thread.
class SessionRunner {
 public:
  virtual ~SessionRunner() = default;

  // From preparing what the assignment needs to the end of the session. Failures are
  // described in the result, not reported.
  virtual SessionEnd Run(const Assignment& assignment, StatsCollector* stats,
                         SessionControl* control) = 0;
};

}  // namespace monsoon
