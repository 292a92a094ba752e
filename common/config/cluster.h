// Loading a cluster file: syntax, meaning and defaults in one step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/config/diagnostics.h"
#include "proto/cluster.pb.h"

namespace monsoon {

// As many parameter servers, and as many workers, guests counted in.
inline constexpr int kMaxTasksOfAKind = 4096;

struct LoadedCluster {
  Cluster cluster;   // with the defaults of cluster.proto filled in
  std::string path;  // as given
};

// The IP addresses of a host; an error says what is wrong with its name.
using HostCheck = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)>;

struct ClusterLoadOptions {
  const std::string* contents = nullptr;  // in place of the file's, which is not read
  HostCheck host_check;                   // null: names are not looked up
  // Receives what is right and mostly not meant, of a right file; null: nobody wants it.
  std::vector<Diagnostic>* warnings = nullptr;
};

// Reads and judges the file; blocks on the disk and host_check only, opens no port.
// On an error the status holds a line for each mistake and `diagnostics`, if given,
// receives them. An address off the loopback is no error here: servers ask
// IsLoopback (address.h).
absl::StatusOr<LoadedCluster> LoadCluster(const std::string& path,
                                          std::vector<Diagnostic>* diagnostics = nullptr,
                                          const ClusterLoadOptions& options = {});

// The same judgement of a message without a file; defaults may be unset.
absl::Status ValidateCluster(const Cluster& cluster);
// Of a worker's settings alone, but for its address.
absl::Status ValidateWorker(const WorkerTask& worker);

// "ps/0 at HOST:PORT, ps/1 at ...", the first few of the cluster's ps or worker tasks.
template <typename Tasks>
std::string ListAddresses(const std::string& role, const Tasks& tasks) {
  constexpr int kMostListed = 4;
  std::string text;
  for (int i = 0; i < tasks.size() && i < kMostListed; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", role, "/", i, " at ", tasks.Get(i).address());
  }
  if (tasks.size() > kMostListed) {
    absl::StrAppend(&text, " and ", tasks.size() - kMostListed, " more");
  }
  return text.empty() ? absl::StrCat("no ", role) : text;
}

// Fills in what cluster.proto says about unset fields.
void FillClusterDefaults(Cluster* cluster);
void FillWorkerDefaults(WorkerTask* worker);

}  // namespace monsoon
