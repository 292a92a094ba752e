// Loading a cluster file: syntax, meaning and defaults in one step.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/diagnostics.h"
#include "proto/cluster.pb.h"

namespace monsoon {

struct LoadedCluster {
  Cluster cluster;   // with the defaults of cluster.proto filled in
  std::string path;  // as given
};

// Reads and judges the file; blocks on the disk only, opens no port. On an
// error the status holds a line for each mistake and `diagnostics`, if given,
// receives them. An address off the loopback is no error here: servers ask
// IsLoopback (address.h).
absl::StatusOr<LoadedCluster> LoadCluster(const std::string& path,
                                          std::vector<Diagnostic>* diagnostics = nullptr);

// The same judgement of a message without a file; defaults may be unset.
absl::Status ValidateCluster(const Cluster& cluster);

// Fills in what cluster.proto says about unset fields.
void FillClusterDefaults(Cluster* cluster);

}  // namespace monsoon
