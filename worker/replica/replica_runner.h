// ReplicaRunner: builds what an assignment needs (data, networks, parameter
// client) and runs the session.
//
// Thread safety: none; one thread, which becomes the compute thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/data/access/data_roots.h"
#include "common/data/data_context.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/frame_transport.h"
#include "coordinator/client/join_job.h"
#include "coordinator/client/replica_client.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/backend/backend.h"
#include "worker/data/data_source.h"
#include "worker/data/job_data.h"
#include "worker/data/prefetching_reader.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/group/replica_group.h"
#include "worker/nn/network.h"
#include "worker/replica/replica_session.h"
#include "worker/sandblaster/contribution_reader.h"
#include "worker/sandblaster/contribution_runner.h"
#include "worker/session/push_bound.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"
#include "worker/session/session_end.h"
#include "worker/synchronous/member_state.h"
#include "worker/synchronous/order_reader.h"
#include "worker/synchronous/peers.h"
#include "worker/synchronous/synchronous_runner.h"

namespace monsoon {

class Tls;

class ReplicaRunner : public SessionRunner {
 public:
  struct Options {
    uint32_t threads = 1;   // of each replica
    uint32_t replicas = 1;  // that share a session
    BackendKind backend = BackendKind::kCpu;
    // CUDA: the first replica's, and how many there are.
    uint32_t device_index = 0;
    uint32_t devices = 1;
    uint32_t DeviceOf(uint32_t replica) const { return (device_index + replica) % devices; }
    uint64_t device_memory_limit_bytes = 0;  // of each replica; 0: none
    // Where data files are opened.
    DataRoots data_roots = DataRoots::Anywhere();
    // What a session keeps of pushes that are not durable; 0: see SessionClientOptions.
    uint64_t replay_window_bytes = 0;
    absl::Duration rpc_deadline = absl::Seconds(10);
    FaultOptions fault;
    std::shared_ptr<Tls> tls;  // as of MakeChannel
    const Clock* clock = Clock::Real();
    Peers peers;  // of the process
    // Of a simulation; null: CreateNetwork's of `backend`, and the client's own.
    std::function<absl::StatusOr<std::unique_ptr<Network>>(const JoinedJob& joined)> make_network;
    std::function<std::unique_ptr<FrameTransport>(const JoinedJob& joined)> make_transport;
  };

  // `coordinator` must outlive this.
  ReplicaRunner(const Options& options, ReplicaClient* coordinator);

  SessionEnd Run(const Assignment& assignment, StatsCollector* stats,
                 SessionControl* control) override;

 private:
  // What one session computes with.
  struct SessionResources {
    JoinedJob joined;
    JobData data;
    std::unique_ptr<ReplicaGroup> group;
    std::unique_ptr<ParameterClient> client;

    // Null in a job in which no replica waits for another.
    std::unique_ptr<PushBound> bound;
    // Null in a job without Downpour SGD.
    std::unique_ptr<DownpourRunner> downpour;
    std::unique_ptr<PrefetchingReader> reader;
    // Null in a job whose members sum nothing among themselves.
    std::unique_ptr<OrderReader> order_reader;
    std::unique_ptr<MemberState> state;
    std::unique_ptr<SynchronousRunner> synchronous;
    // Null in a job without Sandblaster.
    std::unique_ptr<ContributionReader> contribution_reader;
    std::unique_ptr<ContributionRunner> contributions;
  };

  // Errors: DataLoss for the data, ResourceExhausted when no device could be had,
  // others for the job.
  absl::Status Prepare(const Assignment& assignment, StatsCollector* stats, SessionControl* control,
                       SessionResources* resources);
  absl::Status MakeGroup(StatsCollector* stats, SessionResources* resources);
  absl::Status AddDownpour(StatsCollector* stats, SessionControl* control,
                           SessionResources* resources);
  absl::Status AddSynchronous(StatsCollector* stats, SessionControl* control,
                              SessionResources* resources);
  void AddSandblaster(StatsCollector* stats, SessionControl* control, SessionResources* resources);
  absl::StatusOr<std::shared_ptr<const DataSource>> Open(const Dataset& dataset,
                                                         const DataContext& context);
  // FailedPrecondition when the coordinator knows another fingerprint.
  absl::Status CheckData(const Dataset& dataset, uint64_t expected, const DataSource& found) const;
  SessionEnd RunPrepared(SessionResources& resources, StatsCollector* stats,
                         SessionControl* control);

  const Options options_;
  ReplicaClient* const coordinator_;
  uint32_t worker_ = 0;  // of the session
  // Data sets of the last session by their description and the state of their
  // files: a replica that rejoins does not read them again.
  std::map<std::string, std::shared_ptr<const DataSource>> opened_;
};

}  // namespace monsoon
