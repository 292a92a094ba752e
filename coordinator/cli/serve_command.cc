#include "coordinator/cli/serve_command.h"

#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log_settings.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/state_dir.h"
#include "common/process/port_file.h"
#include "common/process/signal_fd.h"
#include "common/security/credential_store.h"
#include "common/transport/credential_renewal.h"
#include "common/transport/frame/fault.h"
#include "common/transport/own_tls.h"
#include "coordinator/server/coordinator_server.h"

namespace monsoon {
namespace {

struct ServeFlags {
  std::string port_file;
  std::string fault;
  std::vector<std::string> state_dir;
  LogSettings log;
  CoordinatorServer::Options server;
};

// That of the cluster, where it is this user's on this host.
absl::StatusOr<std::optional<CertificateAuthority>> FindAuthority(const std::string& cluster) {
  const absl::StatusOr<CredentialStore> store = CredentialStore::Find(&SystemEnvironmentVariable);
  if (!store.ok()) {
    return std::nullopt;  // Nobody can have made one.
  }
  absl::StatusOr<CertificateAuthority> authority = store->Authority(cluster);
  // A name that no authority can have is InvalidArgument.
  if (absl::IsNotFound(authority.status()) || absl::IsInvalidArgument(authority.status())) {
    return std::nullopt;
  }
  RETURN_IF_ERROR(authority.status());
  return *std::move(authority);
}

absl::Status Serve(ServeFlags flags, const LoadedCluster& cluster) {
  ASSIGN_OR_RETURN(flags.server.fault, ParseFaultOptions(flags.fault));
  flags.server.cluster = cluster.cluster;
  ASSIGN_OR_RETURN(flags.server.tls, OwnTls({.cluster = cluster.cluster.name(),
                                             .role = Role::kCoordinator,
                                             .name = "0",
                                             .insecure = flags.server.insecure,
                                             .founds = IsOfOneMachine(cluster.cluster)},
                                            &SystemEnvironmentVariable));
  ASSIGN_OR_RETURN(flags.server.authority, FindAuthority(cluster.cluster.name()));
  if (flags.state_dir.empty()) {
    ASSIGN_OR_RETURN(flags.server.state_dir,
                     ResolveStateDir(cluster.cluster, cluster.path, &SystemEnvironmentVariable));
  } else {
    flags.server.state_dir = flags.state_dir.back();
  }
  RETURN_IF_ERROR(InitLogging("coordinator/0", flags.log));
  // Before the server's threads exist, so that they inherit the mask.
  ASSIGN_OR_RETURN(SignalFd signals, SignalFd::Create({SIGTERM, SIGINT}));
  const std::string state_dir = flags.server.state_dir;
  const std::shared_ptr<Tls> tls = flags.server.tls;
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorServer> server,
                   CoordinatorServer::Start(std::move(flags.server)));
  LOG(INFO) << (state_dir.empty() ? "keeps jobs in memory only"
                                  : absl::StrCat("keeps jobs in ", state_dir, "/coordinator"));
  if (!flags.port_file.empty()) {
    RETURN_IF_ERROR(WritePortFile(flags.port_file, server->address()));
  }
  const std::unique_ptr<CredentialRenewal> renewal =
      CredentialRenewal::Start(server->address(), tls, &SystemEnvironmentVariable);
  LOG(INFO) << "serving cluster " << cluster.cluster.name() << " on " << server->address();
  std::optional<int> signal;
  while (!signal.has_value()) {
    signal = signals.WaitFor(absl::Hours(1));
  }
  LOG(INFO) << "SIG" << sigabbrev_np(*signal) << ": draining";
  server->Stop();
  LOG(INFO) << "stopped";
  return absl::OkStatus();
}

}  // namespace

int RunServe(Invocation& call) {
  ServeFlags flags;
  bool die_with_parent = false;  // main looked at it before
  ClusterFlag cluster(&call);
  call.flags().Add("address", &flags.server.address,
                   "listen here instead of the cluster file's address");
  call.flags().Add("port_file", &flags.port_file, "write the address here once it is served");
  call.flags().Add("state_dir", &flags.state_dir,
                   "keep jobs here instead of the file's state_dir; empty: in memory only");
  call.flags().Add("fault", &flags.fault, "faults for tests: delay_ms=20,drop=0.01,seed=1");
  call.flags().Add("die_with_parent", &die_with_parent, "end when the parent process ends");
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  flags.log = call.log();
  flags.server.insecure = call.insecure();
  const absl::StatusOr<LoadedCluster> loaded = cluster.Load();
  const absl::Status status = loaded.ok() ? Serve(std::move(flags), *loaded) : loaded.status();
  if (!status.ok()) {
    call.Fail(status);
    return kExitUsage;
  }
  return kExitOk;
}

}  // namespace monsoon
