#include "common/config/cluster.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/address.h"
#include "common/config/load_text.h"
#include "common/config/range_check.h"
#include "common/config/reporter.h"
#include "common/config/worker_roots.h"
#include "common/settings/number_rule.h"

namespace monsoon {
namespace {

// A heartbeat a millisecond would be the load itself; the upper bounds only
// catch slipped units.
constexpr uint32_t kMinHeartbeatMs = 10;
constexpr uint32_t kMaxMilliseconds = 3600 * 1000;
constexpr size_t kMaxNameBytes = 64;

struct Listener {
  std::string field;  // "ps[0]"
  Address address;
  std::string text;
};

class ClusterCheck {
 public:
  ClusterCheck(Reporter* reporter, HostCheck host_check)
      : reporter_(reporter), host_check_(std::move(host_check)) {}

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
      CheckAddress(absl::StrCat("worker[", i, "]"), cluster.worker(i).address());
    }
    CheckTimes(cluster);
    CheckStateDir(cluster.state_dir());
    CheckDataRoots("data_roots", cluster.data_roots());
    for (int i = 0; i < std::min(cluster.worker_size(), kMaxTasksOfAKind); ++i) {
      CheckDataRoots(absl::StrCat("worker[", i, "].data_roots"), cluster.worker(i).data_roots());
    }
    CheckRanges(cluster, "", reporter_);
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
    if (host_check_ && address->kind == Address::Kind::kTcp && !IsLoopback(text)) {
      CheckHost(field, task, *address, text);
    }
  }

  // Each host once: a look-up may take seconds.
  void CheckHost(const std::string& field, const std::string& task, const Address& address,
                 const std::string& text) {
    const auto [looked_up, is_new] = looked_up_.try_emplace(address.host);
    if (is_new) {
      absl::StatusOr<std::vector<std::string>> found = host_check_(address.host);
      if (!found.ok()) {
        reporter_->Error(field, std::string(found.status().message()),
                         "mend the name, or write the host's IP address");
        return;
      }
      looked_up->second = *std::move(found);
    }
    for (const std::string& ip : looked_up->second) {
      const auto [other, is_free] =
          endpoints_.try_emplace({ip, address.port}, Listener{task, address, text});
      if (!is_free && address.port != 0 && other->second.text != text) {
        reporter_->Error(
            field,
            absl::StrCat("\"", text, "\" and the address of ", other->second.field, " (\"",
                         other->second.text, "\") are both ", ip, " port ", address.port),
            "give each task its own address");
        return;
      }
    }
  }

  void CheckTimes(const Cluster& cluster) {
    const auto heartbeat = static_cast<uint32_t>(NumberOrUnset(cluster, "heartbeat_ms"));
    const auto lost_after = static_cast<uint32_t>(NumberOrUnset(cluster, "lost_after_ms"));
    if (heartbeat < kMinHeartbeatMs || heartbeat > kMaxMilliseconds) {
      reporter_->Error("heartbeat_ms", absl::StrCat(heartbeat, " ms is out of range ",
                                                    kMinHeartbeatMs, " .. ", kMaxMilliseconds));
    } else if (lost_after < 3 * heartbeat && !reporter_->Refused("heartbeat_ms")) {
      reporter_->Error(cluster.lost_after_ms() != 0 ? "lost_after_ms" : "heartbeat_ms",
                       absl::StrCat("a task is lost after ", lost_after,
                                    " ms, less than three heartbeats of ", heartbeat, " ms"),
                       absl::StrCat("write lost_after_ms: ", 3 * heartbeat, " or more"));
    }
    if (cluster.ps_lost_after_ms() != 0 && cluster.ps_lost_after_ms() < lost_after) {
      reporter_->Error("ps_lost_after_ms",
                       absl::StrCat("a parameter server is lost after ", cluster.ps_lost_after_ms(),
                                    " ms, before it is suspect, after ", lost_after, " ms"),
                       absl::StrCat("write ps_lost_after_ms: ", lost_after, " or more"));
    }
  }

  // Whether they are there, only their hosts know.
  void CheckDataRoots(const std::string& field,
                      const google::protobuf::RepeatedPtrField<std::string>& roots) {
    const absl::Status status = CheckDataFolders({roots.begin(), roots.end()});
    if (!status.ok()) {
      reporter_->Error(field, std::string(status.message()),
                       "as in data_roots: \"/data\", or data_roots: \"none\"");
    }
  }

  // A line break would spoil what is told of it.
  void CheckStateDir(const std::string& path) {
    if (std::any_of(path.begin(), path.end(),
                    [](unsigned char c) { return absl::ascii_iscntrl(c); })) {
      reporter_->Error("state_dir", "a path has no control characters");
    } else if (absl::StartsWith(path, "~")) {
      reporter_->Error(
          "state_dir",
          absl::StrCat("\"", path, "\" would be a folder called ~: no shell reads this"),
          "write the whole path");
    }
  }

  Reporter* reporter_;
  const HostCheck host_check_;
  std::map<std::string, std::vector<std::string>> looked_up_;  // by host: its IP addresses
  std::map<std::pair<std::string, uint16_t>, Listener> endpoints_;
  std::vector<Listener> listeners_;
};

// Tells addresses that a task can listen on and that others cannot, or not all of them, connect to.
class AddressAdvice {
 public:
  AddressAdvice(Reporter* reporter, const HostCheck& host_check)
      : reporter_(reporter), host_check_(host_check) {}

  void Run(const Cluster& cluster) {
    Add("coordinator", cluster.coordinator().address());
    for (int i = 0; i < cluster.ps_size(); ++i) {
      Add(absl::StrCat("ps[", i, "]"), cluster.ps(i).address());
    }
    for (int i = 0; i < cluster.worker_size(); ++i) {
      Add(absl::StrCat("worker[", i, "]"), cluster.worker(i).address());
    }
    AdviseDataRoots(cluster);
    if (!here_.empty() && !elsewhere_.empty()) {
      const Listener& first = here_.front();
      reporter_->Error(
          first.field + ".address",
          absl::StrCat(
              "\"", first.text, "\" is each machine's own",
              here_.size() == 1 ? "" : absl::StrCat(", as are ", here_.size() - 1, " more"),
              ", while ", elsewhere_.front().field, " is at \"", elsewhere_.front().text,
              "\": other machines cannot connect to it, and `up` on each of them would "
              "start it"),
          "write the name of its machine");
    }
  }

 private:
  void Add(const std::string& task, const std::string& text) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) {
      return;
    }
    if (address->kind == Address::Kind::kTcp &&
        (address->host == "0.0.0.0" || address->host == "::")) {
      reporter_->Error(task + ".address",
                       absl::StrCat("\"", text,
                                    "\" is no address to connect to: for each machine it is the "
                                    "machine itself"),
                       absl::StrCat("write the name of its machine; it may still be started with "
                                    "--address=",
                                    text));
      return;
    }
    (IsLoopback(text) ? here_ : elsewhere_).push_back({task, *address, text});
    if (host_check_ && !IsLoopback(text)) {
      LookUp(task, *address, text);
    }
  }

  // Of workers that can be on this machine alone.
  void AdviseDataRoots(const Cluster& cluster) {
    for (int i = 0; i < cluster.worker_size(); ++i) {
      const WorkerTask& worker = cluster.worker(i);
      const absl::Status status = IsLoopback(worker.address())
                                      ? RootsOfWorker({}, worker, cluster, true).status()
                                      : absl::OkStatus();
      if (!status.ok()) {
        const bool own = worker.data_roots_size() > 0;
        reporter_->Error(own ? absl::StrCat("worker[", i, "].data_roots") : "data_roots",
                         std::string(status.message()), "make it, or name another one");
        return;
      }
    }
  }

  // Debian gives a machine's own name the address 127.0.1.1.
  void LookUp(const std::string& task, const Address& address, const std::string& text) {
    if (!looked_up_.insert(address.host).second) {
      return;
    }
    const absl::StatusOr<std::vector<std::string>> found = host_check_(address.host);
    for (const std::string& ip : found.value_or(std::vector<std::string>())) {
      if (absl::StartsWith(ip, "127.") || ip == "::1") {
        reporter_->Error(task + ".address",
                         absl::StrCat("\"", text, "\" is ", ip,
                                      " on this machine, which it alone can connect to: a task "
                                      "that listens there is out of reach for the others"),
                         "write the machine's IP address, or mend its line in /etc/hosts");
        return;
      }
    }
  }

  Reporter* const reporter_;
  const HostCheck& host_check_;
  std::set<std::string> looked_up_;
  std::vector<Listener> here_, elsewhere_;
};

}  // namespace

void FillClusterDefaults(Cluster* cluster) {
  if (cluster->name().empty()) {
    cluster->set_name("monsoon");
  }
  const bool ps_lost_after_is_set = cluster->ps_lost_after_ms() != 0;
  FillUnset(cluster);
  if (!ps_lost_after_is_set) {
    cluster->set_ps_lost_after_ms(std::max(cluster->ps_lost_after_ms(), cluster->lost_after_ms()));
  }
  for (ParameterServerTask& ps : *cluster->mutable_ps()) {
    FillUnset(&ps);
  }
  for (WorkerTask& worker : *cluster->mutable_worker()) {
    FillWorkerDefaults(&worker);
  }
}

void FillWorkerDefaults(WorkerTask* worker) { FillUnset(worker); }

absl::Status ValidateCluster(const Cluster& cluster) {
  return CheckWithoutFile(
      [&](Reporter* reporter) { ClusterCheck(reporter, nullptr).Run(cluster); });
}

absl::Status ValidateWorker(const WorkerTask& worker) {
  return CheckWithoutFile([&](Reporter* reporter) { CheckRanges(worker, "worker", reporter); });
}

absl::StatusOr<LoadedCluster> LoadCluster(const std::string& path,
                                          std::vector<Diagnostic>* diagnostics,
                                          const ClusterLoadOptions& options) {
  LoadedCluster loaded;
  loaded.path = path;
  RETURN_IF_ERROR(LoadText(
      path, &loaded.cluster,
      [&](Reporter* reporter) { ClusterCheck(reporter, options.host_check).Run(loaded.cluster); },
      {[&](Reporter* reporter) { AddressAdvice(reporter, options.host_check).Run(loaded.cluster); },
       options.warnings},
      diagnostics, options.contents));
  FillClusterDefaults(&loaded.cluster);
  return loaded;
}

}  // namespace monsoon
