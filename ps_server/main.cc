#include <malloc.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/flags.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/config/cluster.h"
#include "common/process/die_with_parent.h"
#include "common/process/signal_fd.h"
#include "common/rpc/fault.h"
#include "common/rpc/port_file.h"
#include "proto/cluster.pb.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/server.h"

namespace monsoon {
namespace {

// glibc's arenas each keep what they freed; with one per thread (the default)
// a flood of streams cost 10 MiB over the message budget.
constexpr int kMallocArenas = 2;
constexpr absl::Duration kDrainGrace = absl::Seconds(5);

struct Settings {
  PsServerOptions server;
  std::string port_file;
};

absl::StatusOr<Settings> ReadSettings(std::span<const char* const> args) {
  Settings settings;
  const char* environment = std::getenv("MONSOON_CLUSTER");
  std::string cluster_file =
      environment != nullptr ? environment : "configs/cluster/localhost.textproto";
  std::string fault;
  bool die_with_parent = false;  // main looked at it before
  FlagSet flags("ps_server --cluster=FILE --task=N [flags]\nHolds slice N of every job's model.");
  flags.Add("cluster", &cluster_file, "the cluster file (or MONSOON_CLUSTER)");
  flags.Add("task", &settings.server.task, "which ps of the cluster file this is, from 0");
  flags.Add("address", &settings.server.address, "listen here instead of the file's address");
  flags.Add("port_file", &settings.port_file, "write the address here once it is served");
  flags.Add("insecure", &settings.server.insecure, "allow an address that others can reach");
  flags.Add("fault", &fault, "faults for tests: delay_ms=20,drop=0.01,seed=1");
  flags.Add("die_with_parent", &die_with_parent, "end when the parent process ends");
  ASSIGN_OR_RETURN(const std::vector<std::string> rest, flags.Parse(args));
  if (flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    std::exit(0);
  }
  if (!rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", rest[0], "\""));
  }
  ASSIGN_OR_RETURN(settings.server.fault, ParseFaultOptions(fault));
  ASSIGN_OR_RETURN(const LoadedCluster loaded, LoadCluster(cluster_file));
  const Cluster& cluster = loaded.cluster;
  if (settings.server.task >= static_cast<uint32_t>(cluster.ps_size())) {
    return absl::InvalidArgumentError(absl::StrCat("--task=", settings.server.task, ", but ",
                                                   cluster_file, " has ", cluster.ps_size(),
                                                   " ps entries, counted from 0"));
  }
  const ParameterServerTask& task = cluster.ps(static_cast<int>(settings.server.task));
  settings.server.cluster = cluster.name();
  settings.server.memory_limit_bytes = uint64_t{task.memory_limit_mib()} << 20;
  settings.server.message_memory_bytes = uint64_t{task.message_memory_mib()} << 20;
  if (settings.server.address.empty()) {
    settings.server.address = task.address();
  }
  return settings;
}

int Run(std::span<const char* const> args) {
  const absl::StatusOr<Settings> settings = ReadSettings(args);
  if (!settings.ok()) {
    std::fprintf(stderr, "ps_server: %s\n", std::string(settings.status().message()).c_str());
    return 2;
  }
  InitLogging(absl::StrCat("ps/", settings->server.task));
  absl::StatusOr<SignalFd> signals = SignalFd::Create({SIGTERM, SIGINT});
  absl::StatusOr<std::unique_ptr<PsServer>> server =
      signals.ok() ? PsServer::Start(settings->server) : signals.status();
  if (server.ok() && !settings->port_file.empty()) {
    if (const absl::Status status = WritePortFile(settings->port_file, (*server)->address());
        !status.ok()) {
      server = status;
    }
  }
  if (!server.ok()) {
    LOG(ERROR) << server.status().message();
    return 2;
  }
  LOG(INFO) << "serving on " << (*server)->address() << ", epoch " << (*server)->epoch();
  std::optional<int> signal;
  while (!signal.has_value()) {
    signal = signals->WaitFor(absl::Hours(1));
  }
  LOG(INFO) << "signal " << *signal << ": draining";
  (*server)->Drain(kDrainGrace);
  const ShardStatusReply status = (*server)->GetStatus();
  for (const ShardJobStatus& job : status.job()) {
    LOG(INFO) << "job " << job.job() << ": applied " << job.applied() << ", duplicates "
              << job.duplicates() << ", refused " << job.refused();
  }
  LOG(INFO) << "stopped";
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  if (monsoon::WantsToDieWithParent(argc, argv)) {
    monsoon::DieWithParent();
  }
  mallopt(M_ARENA_MAX, monsoon::kMallocArenas);
  return monsoon::Run(std::span<const char* const>(argv + 1, argv + argc));
}
