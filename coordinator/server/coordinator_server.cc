#include "coordinator/server/coordinator_server.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/config/cluster.h"
#include "common/process/file_lock.h"
#include "common/storage/storage.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/rpc_server.h"
#include "coordinator/journal/sqlite_journal.h"
#include "coordinator/server/coordinator.h"
#include "coordinator/server/job_service.h"
#include "coordinator/server/member_service.h"
#include "coordinator/server/replica_service.h"
#include "coordinator/shards/shard_gateway.h"

namespace monsoon {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(1);

// A poll that hangs must end well before its shard counts as lost, so that a
// busy shard gets a second one.
absl::Duration StatusDeadline(const Cluster& cluster) {
  return std::max(absl::Milliseconds(cluster.lost_after_ms()) / 2,
                  absl::Milliseconds(cluster.heartbeat_ms()));
}

class CoordinatorServerImpl : public CoordinatorServer {
 public:
  explicit CoordinatorServerImpl(const FaultOptions& fault) : fault_(fault) {}
  ~CoordinatorServerImpl() override { Stop(); }

  absl::Status Init(const Options& options) {
    const Cluster& cluster = options.cluster;
    std::vector<std::unique_ptr<ShardGateway>> shards;
    for (const ParameterServerTask& ps : cluster.ps()) {
      ShardGatewayOptions gateway;
      gateway.address = ps.address();
      gateway.cluster = cluster.name();
      gateway.status_deadline = StatusDeadline(cluster);
      gateway.session_deadline = absl::Milliseconds(cluster.lost_after_ms());
      gateway.job_deadline = absl::Milliseconds(cluster.rpc_deadline_ms());
      gateway.fault = options.fault;
      gateway.tls = options.tls;
      shards.push_back(MakeShardGateway(gateway));
    }
    OpenedJournal opened;
    if (!options.state_dir.empty()) {
      ASSIGN_OR_RETURN(opened, OpenState(options.state_dir, cluster.name()));
    }
    coordinator_ =
        std::make_unique<Coordinator>(cluster, std::move(shards), options.clock, std::move(opened));
    if (options.authority.has_value()) {
      RETURN_IF_ERROR(coordinator_->AskMembers(
          [&](Members* members, Moment) { return members->UseAuthority(*options.authority); }));
    }
    CallTable calls;
    const bool open = options.tls == nullptr && IsTcp(options.address);
    AddJobCalls(coordinator_.get(), open ? options.address : "", &fault_, &calls);
    AddMemberCalls(coordinator_.get(), &fault_, &calls);
    AddReplicaCalls(coordinator_.get(), &fault_, &calls);
    RpcServerOptions server;
    server.address = options.address;
    server.tls = options.tls;
    server.insecure = options.insecure;
    server.takes_strangers = [coordinator = coordinator_.get()] {
      return coordinator->TakesJoiners();
    };
    server.membership = Guard::NotRevoked(coordinator_->revoked_keys());
    server.on_trouble = [coordinator = coordinator_.get()](const std::string& trouble) {
      coordinator->NoteTrouble(trouble);
    };
    ASSIGN_OR_RETURN(server_, RpcServer::Start(server, std::move(calls)));
    address_ = server_->address();
    // Only whoever has the address is the cluster's coordinator: one that began with a copy of the
    // state folder would take the shards from the other before it found the address taken.
    coordinator_->Begin();
    return absl::OkStatus();
  }

  // Takes the lock, and opens the journal beside it.
  absl::StatusOr<OpenedJournal> OpenState(const std::string& state_dir,
                                          const std::string& cluster) {
    const std::string folder = state_dir + "/coordinator";
    RETURN_IF_ERROR(PosixStorage()->MakeFolder(folder));
    if (const std::string warning = WideFolderWarning(state_dir); !warning.empty()) {
      LOG(WARNING) << warning;
    }
    ASSIGN_OR_RETURN(lock_, FileLock::Take(folder + "/lock"));
    return OpenSqliteJournal({.path = folder + "/state.sqlite", .cluster = cluster});
  }

  const std::string& address() const override { return address_; }

  void Stop() override {
    if (server_ != nullptr) {
      server_->Shutdown(kGrace);
    }
    server_.reset();
    coordinator_.reset();
  }

 private:
  FaultInjector fault_;
  std::optional<FileLock> lock_;  // outlives the journal
  std::string address_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(Options options) {
  FillClusterDefaults(&options.cluster);
  if (options.address.empty()) {
    options.address = options.cluster.coordinator().address();
  }
  if (options.fault.enabled() && !IsLoopback(options.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--fault is for tests on the loopback only, not on ", options.address));
  }
  auto server = std::make_unique<CoordinatorServerImpl>(options.fault);
  RETURN_IF_ERROR(server->Init(options));
  return server;
}

}  // namespace monsoon
