// What any session's runner needs between its parameter client and the outside: what ends
// its calls, what the coordinator says of the shards, what is kept of its pushes, and a
// fetch that outlasts a shard's silence.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/client/join_job.h"
#include "ps_server/client/parameter_client.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

// Connects `client` to `control` and `stats` from its making to its end, which returns
// after calls that are running. All must outlive it. What waits for calls of the client in
// flight must end before this does, so that a stop can end them.
class SessionWires {
 public:
  // `on_stop`: what else a stop ends; may be null.
  SessionWires(const JoinedJob& joined, ParameterClient* client, StatsCollector* stats,
               SessionControl* control, std::function<void()> on_stop = nullptr);
  ~SessionWires();
  SessionWires(const SessionWires&) = delete;
  SessionWires& operator=(const SessionWires&) = delete;

 private:
  StatsCollector* const stats_;
  SessionControl* const control_;
};

// The options of a session's client. `replay_window_bytes`: what it may keep of pushes that
// are not durable, where they are kept; 0: as DefaultReplayWindow says. `stats` must outlive the
// client.
ParameterClientOptions SessionClientOptions(const JoinedJob& joined, absl::Duration deadline,
                                            uint64_t replay_window_bytes, StatsCollector* stats);

// Fetches the vector, or the parameters as they are if it is "", until a shard answers or
// the session stops.
absl::Status FetchForEvaluation(ParameterClient* client, SessionControl* control,
                                const std::string& vector, std::span<float> parameters,
                                StatsCollector* stats);

}  // namespace monsoon
