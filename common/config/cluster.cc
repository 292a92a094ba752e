#include "common/config/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/config/address.h"
#include "common/config/reporter.h"
#include "common/config/text_parser.h"
#include "common/config/text_tokens.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultHeartbeatMs = 500;
constexpr uint32_t kDefaultLostAfterMs = 3000;
constexpr uint32_t kDefaultRpcDeadlineMs = 10000;
constexpr uint32_t kDefaultMemoryLimitMib = 4096;
constexpr uint32_t kDefaultMessageMemoryMib = 256;
// A heartbeat a millisecond would be the load itself; the upper bounds only
// catch slipped units.
constexpr uint32_t kMinHeartbeatMs = 10;
constexpr uint32_t kMaxMilliseconds = 3600 * 1000;
constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxReplicasOfATask = 64;
constexpr uint32_t kMaxDeviceIndex = 1023;
constexpr uint32_t kMaxDeviceMib = 1 << 20;
constexpr int kMaxTasksOfAKind = 4096;
constexpr size_t kMaxNameBytes = 64;

struct Listener {
  std::string field;  // "ps[0]"
  Address address;
  std::string text;
};

class ClusterCheck {
 public:
  explicit ClusterCheck(Reporter* reporter) : reporter_(reporter) {}

  void Run(const Cluster& cluster) {
    CheckName(cluster.name());
    CheckAddress("coordinator", cluster.coordinator().address());
    if (cluster.ps_size() == 0) {
      reporter_->Error("ps", "a cluster needs at least one parameter server",
                       "add ps { address: \"127.0.0.1:2222\" }");
    }
    CheckCount("ps", cluster.ps_size());
    CheckCount("worker", cluster.worker_size());
    for (int i = 0; i < std::min(cluster.ps_size(), kMaxTasksOfAKind); ++i) {
      CheckAddress(absl::StrCat("ps[", i, "]"), cluster.ps(i).address());
    }
    for (int i = 0; i < std::min(cluster.worker_size(), kMaxTasksOfAKind); ++i) {
      const std::string field = absl::StrCat("worker[", i, "]");
      CheckAddress(field, cluster.worker(i).address());
      CheckWorker(field, cluster.worker(i));
    }
    CheckTimes(cluster);
  }

 private:
  void CheckName(const std::string& name) {
    if (name.size() > kMaxNameBytes || !std::all_of(name.begin(), name.end(), [](unsigned char c) {
          return absl::ascii_isgraph(c);
        })) {
      reporter_->Error("name", absl::StrCat("a cluster's name has up to ", kMaxNameBytes,
                                            " printable ASCII characters and no space"));
    }
  }

  void CheckWorker(const std::string& field, const WorkerTask& worker) {
    CheckAtMost(field + ".threads", worker.threads(), kMaxThreads, " threads");
    CheckAtMost(field + ".replicas", worker.replicas(), kMaxReplicasOfATask, " replicas");
    CheckAtMost(field + ".device_memory_limit_mib", worker.device_memory_limit_mib(), kMaxDeviceMib,
                " MiB");
    if (worker.device_index() > kMaxDeviceIndex) {
      reporter_->Error(field + ".device_index",
                       absl::StrCat(worker.device_index(), " is no device; GPUs count from 0"));
    }
    if (!Device_IsValid(worker.device())) {
      reporter_->Error(field + ".device", "unknown device");
    }
  }

  void CheckAtMost(const std::string& field, uint32_t value, uint32_t most, const char* unit) {
    if (value > most) {
      reporter_->Error(field, absl::StrCat(value, unit, " are more than ", most));
    }
  }

  void CheckCount(const std::string& field, int count) {
    if (count > kMaxTasksOfAKind) {
      reporter_->Error(absl::StrCat(field, "[", kMaxTasksOfAKind, "]"),
                       absl::StrCat(count, " tasks are more than ", kMaxTasksOfAKind));
    }
  }

  void CheckAddress(const std::string& task, const std::string& text) {
    const std::string field = task + ".address";
    if (text.empty()) {
      reporter_->Error(field, "no address is set", "as in address: \"127.0.0.1:2222\"");
      return;
    }
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) {
      reporter_->Error(field, std::string(address.status().message()));
      return;
    }
    for (const Listener& other : listeners_) {
      if (SameEndpoint(*address, other.address)) {
        reporter_->Error(
            field,
            absl::StrCat("\"", text, "\" is the address of ", other.field, " too",
                         text == other.text ? "" : absl::StrCat(" (\"", other.text, "\")")),
            "give each task its own address");
        return;
      }
    }
    listeners_.push_back({task, *address, text});
  }

  void CheckTimes(const Cluster& cluster) {
    const uint32_t heartbeat =
        cluster.heartbeat_ms() != 0 ? cluster.heartbeat_ms() : kDefaultHeartbeatMs;
    const uint32_t lost_after =
        cluster.lost_after_ms() != 0 ? cluster.lost_after_ms() : kDefaultLostAfterMs;
    if (heartbeat < kMinHeartbeatMs || heartbeat > kMaxMilliseconds) {
      reporter_->Error("heartbeat_ms", absl::StrCat(heartbeat, " ms is out of range ",
                                                    kMinHeartbeatMs, " .. ", kMaxMilliseconds));
    } else if (lost_after < 3 * heartbeat && !reporter_->Refused("heartbeat_ms")) {
      reporter_->Error(cluster.lost_after_ms() != 0 ? "lost_after_ms" : "heartbeat_ms",
                       absl::StrCat("a task is lost after ", lost_after,
                                    " ms, less than three heartbeats of ", heartbeat, " ms"),
                       absl::StrCat("write lost_after_ms: ", 3 * heartbeat, " or more"));
    }
    if (lost_after > kMaxMilliseconds) {
      reporter_->Error("lost_after_ms", absl::StrCat(lost_after, " ms is more than an hour"));
    }
    if (cluster.rpc_deadline_ms() > kMaxMilliseconds) {
      reporter_->Error("rpc_deadline_ms",
                       absl::StrCat(cluster.rpc_deadline_ms(), " ms is more than an hour"));
    }
  }

  Reporter* reporter_;
  std::vector<Listener> listeners_;
};

void SetIfZero(uint32_t value, uint32_t otherwise, auto set) {
  if (value == 0) {
    set(otherwise);
  }
}

}  // namespace

void FillClusterDefaults(Cluster* cluster) {
  if (cluster->name().empty()) {
    cluster->set_name("monsoon");
  }
  SetIfZero(cluster->heartbeat_ms(), kDefaultHeartbeatMs,
            [cluster](uint32_t v) { cluster->set_heartbeat_ms(v); });
  SetIfZero(cluster->lost_after_ms(), kDefaultLostAfterMs,
            [cluster](uint32_t v) { cluster->set_lost_after_ms(v); });
  SetIfZero(cluster->rpc_deadline_ms(), kDefaultRpcDeadlineMs,
            [cluster](uint32_t v) { cluster->set_rpc_deadline_ms(v); });
  for (ParameterServerTask& ps : *cluster->mutable_ps()) {
    SetIfZero(ps.memory_limit_mib(), kDefaultMemoryLimitMib,
              [&ps](uint32_t v) { ps.set_memory_limit_mib(v); });
    SetIfZero(ps.message_memory_mib(), kDefaultMessageMemoryMib,
              [&ps](uint32_t v) { ps.set_message_memory_mib(v); });
  }
  for (WorkerTask& worker : *cluster->mutable_worker()) {
    SetIfZero(worker.threads(), 1, [&worker](uint32_t v) { worker.set_threads(v); });
    SetIfZero(worker.replicas(), 1, [&worker](uint32_t v) { worker.set_replicas(v); });
  }
}

absl::Status ValidateCluster(const Cluster& cluster) {
  const LocationMap no_locations;
  std::vector<Diagnostic> diagnostics;
  Reporter reporter("", &no_locations, &diagnostics);
  ClusterCheck(&reporter).Run(cluster);
  return DiagnosticsToStatus(diagnostics);
}

absl::StatusOr<LoadedCluster> LoadCluster(const std::string& path,
                                          std::vector<Diagnostic>* diagnostics) {
  std::vector<Diagnostic> found;
  LocationMap locations;
  LoadedCluster loaded;
  loaded.path = path;
  TextSource source{path, "", ""};
  if (ReadConfigFile(path, &source.contents, &found) &&
      ParseText(source, &loaded.cluster, &locations, &found)) {
    Reporter reporter(path, &locations, &found);
    ClusterCheck(&reporter).Run(loaded.cluster);
  }
  SortDiagnostics(&found);
  const absl::Status status = DiagnosticsToStatus(found);
  if (diagnostics != nullptr) {
    diagnostics->insert(diagnostics->end(), found.begin(), found.end());
  }
  if (!status.ok()) {
    return status;
  }
  FillClusterDefaults(&loaded.cluster);
  return loaded;
}

}  // namespace monsoon
