// Worker: one worker task: serves its address, stays a member of the cluster,
// and runs the replica sessions it is given, one after another. Two fit in one
// process.
//
// Starts in any order with the other tasks: it keeps asking the coordinator.
//
// Thread safety: all calls may run concurrently.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/latest_text.h"
#include "common/collective/peer_mailbox.h"
#include "common/data/access/data_roots.h"
#include "common/transport/frame/fault.h"
#include "coordinator/client/replica_client.h"
#include "proto/cluster.pb.h"
#include "worker/backend/device.h"
#include "worker/replica/replica_runner.h"
#include "worker/server.h"
#include "worker/session/session_host.h"

namespace monsoon {

class Tls;

struct WorkerOptions {
  Cluster cluster;  // with its defaults filled in
  uint32_t task = 0;
  // Not 0: not in the cluster file, whose cluster must be open. Drawn at random for the
  // life of the process; `task` means nothing then.
  uint64_t guest = 0;
  // In place of the cluster file's; a guest has no other.
  std::optional<WorkerTask> settings;
  std::string address;  // unset: that of the settings
  // As of RpcServerOptions, and of MakeChannel for all that it calls.
  std::shared_ptr<Tls> tls;
  bool insecure = false;
  // --data: folders below which files of jobs are opened, in place of the cluster file's.
  std::vector<std::string> data_folders;
  // The worker's user runs the cluster (RootsOfWorker).
  bool beside_owner = true;
  FaultOptions fault;  // refused where other machines can reach the address
  // Wraps the connection to the coordinator, for tests; null: as it is.
  std::function<std::unique_ptr<ReplicaClient>(std::unique_ptr<ReplicaClient>)> wrap_coordinator;
  // Called once, by the compute thread, when no device is left to compute with:
  // this worker runs no more sessions, and its process should end. May be null.
  std::function<void()> on_device_lost;
  // Called once, by the heartbeat thread, when the coordinator says why this worker can
  // never join: its process should end with that. May be null.
  std::function<void(const absl::Status&)> on_refused;
  // Called once, likewise, when the coordinator tells this worker to leave: Drain should
  // follow. May be null.
  std::function<void()> on_drain;
};

class Worker {
 public:
  // Binds, serves and begins to join. InvalidArgument for a task that is not
  // there, FailedPrecondition for a device; errors of the address as RpcServer.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(WorkerOptions options);
  // Stops at once: the coordinator finds out by silence.
  ~Worker() = default;

  const std::string& address() const { return server_->address(); }

  // SessionHost::Drain.
  void Drain(absl::Duration grace) { host_->Drain(grace); }

 private:
  Worker(WorkerOptions options, const BackendChoice& choice, const DataRoots& data_roots);

  ReplicaRunner::Options RunnerOptions(const BackendChoice& choice, const DataRoots& data_roots,
                                       absl::Duration deadline);
  // Where other members of a group reach it.
  std::string PeerAddress() const;

  const WorkerOptions options_;
  LatestText trouble_;  // of its address, as server_ says
  PeerMailbox mailbox_;
  std::unique_ptr<ReplicaClient> heartbeat_client_;
  std::unique_ptr<ReplicaClient> work_client_;
  std::unique_ptr<WorkerServer> server_;
  std::unique_ptr<ReplicaRunner> runner_;
  std::unique_ptr<SessionHost> host_;
};

}  // namespace monsoon
