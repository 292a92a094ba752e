// Where a cluster's tasks keep what must survive them (cluster.proto, state_dir).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace monsoon {

// A variable of the environment; nothing when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The state folder of the cluster of the file at `cluster_file`, absolute; "": none,
// everything is in memory only. In this order:
//   state_dir of the cluster file, relative to that file; "" is none;
//   $MONSOON_STATE_DIR, relative to the working folder; empty is none;
//   $XDG_STATE_HOME/monsoon/NAME-HASH, or $HOME/.local/state/monsoon/NAME-HASH.
// NAME is the cluster's, with what is no letter, digit, '.', '_' or '-' as '_'; HASH are
// 8 hexadecimal digits of the absolute path of the cluster file, so that two clusters of
// one name do not share it. An XDG_STATE_HOME that is not absolute is passed over, as its
// specification demands.
//
// FAILED_PRECONDITION where none of these says anything. Looks at no file and makes
// none; relative paths are seen from the working folder.
absl::StatusOr<std::string> ResolveStateDir(const Cluster& cluster, const std::string& cluster_file,
                                            const EnvironmentLookup& environment);

// The environment of this process.
std::optional<std::string> SystemEnvironmentVariable(const std::string& name);

}  // namespace monsoon
