// ProgramRunner: runs the sessions of a program that trains a model of its own: what a
// worker's ReplicaRunner does, with the program in the place of data and network.
//
// Thread safety: none; one thread, which becomes the compute thread, and which the program
// belongs to while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/transport/frame/frame_transport.h"
#include "coordinator/client/join_job.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/session/session_end.h"
#include "worker/sidecar/program.h"

namespace monsoon {

class Tls;

class ProgramRunner : public SessionRunner {
 public:
  struct Options {
    absl::Duration rpc_deadline = absl::Seconds(10);
    const Clock* clock = Clock::Real();
    // What a session may keep of pushes; 0: see SessionClientOptions.
    uint64_t replay_window_bytes = 0;
    bool halves = false;       // DownpourRunnerOptions.halves
    std::shared_ptr<Tls> tls;  // to the shards, as of MakeChannel
    // Of a simulation; null: the client's own.
    std::function<std::unique_ptr<FrameTransport>(const SessionKey& session)> make_transport;
  };

  // Both must outlive this.
  ProgramRunner(const Options& options, ReplicaClient* coordinator, Program* program)
      : options_(options), coordinator_(coordinator), program_(program) {}

  SessionEnd Run(const Assignment& assignment, StatsCollector* stats,
                 SessionControl* control) override;

  // How many sessions there were.
  uint64_t sessions() const { return sessions_; }
  // Of the last one; nothing before the first.
  const std::optional<JoinedJob>& joined() const { return joined_; }

 private:
  ParameterClientOptions ClientOptions(const JoinedJob& joined, StatsCollector* stats) const;
  absl::StatusOr<SessionEnd> RunJoined(const JoinedJob& joined, StatsCollector* stats,
                                       SessionControl* control);

  const Options options_;
  ReplicaClient* const coordinator_;
  Program* const program_;
  uint64_t sessions_ = 0;
  std::optional<JoinedJob> joined_;
};

}  // namespace monsoon
