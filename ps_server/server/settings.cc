#include "ps_server/server/settings.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/config/cluster.h"
#include "common/config/state_dir.h"
#include "common/config/suggest.h"
#include "common/memory/available_memory.h"
#include "common/transport/frame/fault.h"
#include "common/transport/own_tls.h"
#include "proto/cluster.pb.h"

namespace monsoon {

namespace {

constexpr uint32_t kNoTask = UINT32_MAX;

// What the process takes beside jobs and messages: 30 to 50 MiB were seen.
constexpr uint64_t kOwnBytes = uint64_t{64} << 20;

// What the cluster file says of options->task.
void TakeTask(const Cluster& cluster, PsServerOptions* options) {
  const ParameterServerTask& task = cluster.ps(static_cast<int>(options->task));
  options->cluster = cluster.name();
  options->message_memory_bytes = uint64_t{task.message_memory_mib()} << 20;
  LimitMemory(uint64_t{task.memory_limit_mib()} << 20, MemoryLimit(), options);
  options->keep_ended_jobs = cluster.keep_ended_jobs();
  if (options->address.empty()) {
    options->address = task.address();
  }
}

absl::StatusOr<std::shared_ptr<Tls>> FindTls(const Cluster& cluster,
                                             const PsServerOptions& options) {
  return OwnTls({.cluster = cluster.name(),
                 .coordinator = cluster.coordinator().address(),
                 .role = Role::kPs,
                 .name = absl::StrCat(options.task),
                 .insecure = options.insecure,
                 .founds = IsOfOneMachine(cluster)},
                &SystemEnvironmentVariable);
}

}  // namespace

void LimitMemory(uint64_t wanted, std::optional<uint64_t> system, PsServerOptions* options) {
  options->memory_limit_bytes = wanted;
  if (!system) {
    return;
  }
  const uint64_t beside = std::min(*system / 2, options->message_memory_bytes + kOwnBytes);
  if (wanted <= *system - beside) {
    return;
  }
  options->memory_limit_bytes = *system - beside;
  options->memory_limit_is = absl::StrCat(
      "of the ", *system >> 20, " MiB that its machine or container lets it have, ", beside >> 20,
      " are for messages and itself; ps.memory_limit_mib in the cluster file is ", wanted >> 20);
}

absl::StatusOr<PsSettings> ReadPsSettings(std::span<const char* const> args) {
  PsSettings settings;
  const char* environment = std::getenv("MONSOON_CLUSTER");
  std::string cluster_file =
      environment != nullptr ? environment : "configs/cluster/localhost.textproto";
  std::string fault;
  std::vector<std::string> state_dir;
  uint32_t task_index = kNoTask;
  bool die_with_parent = false;  // main looked at it before
  FlagSet flags("ps_server --cluster=FILE --task=N [flags]\nHolds slice N of every job's model.");
  flags.SetSuggest(DidYouMeanFlag);
  flags.Add("cluster", &cluster_file, "the cluster file (or MONSOON_CLUSTER)");
  flags.Add("task", &task_index, "which ps of the cluster file this is, from 0");
  flags.Add("address", &settings.server.address, "listen here instead of the file's address");
  flags.Add("port_file", &settings.port_file, "write the address here once it is served");
  flags.Add("insecure", &settings.server.insecure, "allow an address that others can reach");
  flags.Add("state_dir", &state_dir,
            "keep checkpoints here instead of the file's state_dir; empty: in memory only");
  flags.Add("fault", &fault, "faults for tests: delay_ms=20,drop=0.01,seed=1");
  AddLogFlags(&flags, &settings.log);
  flags.Add("die_with_parent", &die_with_parent, "end when the parent process ends");
  flags.Add("version", &settings.version, "print what this binary is and exit");
  ASSIGN_OR_RETURN(const std::vector<std::string> rest, flags.Parse(args));
  if (flags.help_wanted()) {
    settings.help = flags.Help();
  }
  if (settings.help || settings.version) {
    return settings;
  }
  if (!rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", rest[0], "\""));
  }
  ASSIGN_OR_RETURN(settings.server.fault, ParseFaultOptions(fault));
  ASSIGN_OR_RETURN(const LoadedCluster loaded, LoadCluster(cluster_file));
  const Cluster& cluster = loaded.cluster;
  if (task_index == kNoTask) {
    return absl::InvalidArgumentError(absl::StrCat("--task=N is missing: which ps of ",
                                                   cluster_file, " is this? It has ",
                                                   ListAddresses("ps", cluster.ps())));
  }
  settings.server.task = task_index;
  if (settings.server.task >= static_cast<uint32_t>(cluster.ps_size())) {
    return absl::InvalidArgumentError(absl::StrCat("--task=", settings.server.task, ", but ",
                                                   cluster_file, " has ", cluster.ps_size(),
                                                   " ps entries, counted from 0"));
  }
  TakeTask(cluster, &settings.server);
  settings.coordinator = cluster.coordinator().address();
  ASSIGN_OR_RETURN(settings.server.tls, FindTls(cluster, settings.server));
  if (state_dir.empty()) {
    ASSIGN_OR_RETURN(settings.server.state_dir,
                     ResolveStateDir(cluster, cluster_file, &SystemEnvironmentVariable));
  } else {
    settings.server.state_dir = state_dir.back();
  }
  return settings;
}

}  // namespace monsoon
