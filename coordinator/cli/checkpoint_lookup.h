// Finds the checkpoints that users name: by a path, or as a job of the cluster's state
// folder. The cluster need not be up.
//
// Thread safety: none. Blocks on the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_place.h"
#include "coordinator/cli/command.h"

namespace monsoon {

class CheckpointLookup {
 public:
  // Both outlive this. The cluster file is looked at only where a job is named.
  CheckpointLookup(const Environment& env, const ClusterFlag* cluster)
      : env_(env), cluster_(*cluster) {}

  // `what` is a job with a checkpoint in the cluster's state folder, where it has no
  // '/' (lenet-1; lenet-1@TERM, as its folder is called; latest, the one written last);
  // else a path, as of PlaceOf. NotFound says where it was looked for.
  absl::StatusOr<CheckpointPlace> Find(const std::string& what) const;
  // The job that is meant by that, where it is no path. The term is that of its folder, if `what`
  // says it or is `latest`; 0: whichever job is called so. Nothing: a path, or there is no such
  // folder.
  struct NamedJob {
    std::string job;
    uint64_t term = 0;
  };
  std::optional<NamedJob> JobOf(const std::string& what) const;
  // A job alone.
  absl::StatusOr<CheckpointPlace> FindJob(const std::string& job) const;

  // `from` is a state folder, in which `job` is looked for, or a path as of PlaceOf,
  // which must be of `job` unless that is "". Of a state folder `job` is needed.
  absl::StatusOr<CheckpointPlace> FindFrom(const std::string& from, const std::string& job) const;

  // What the worker is to be given for the --model of evaluate and predict, where a job
  // may be named too: its folder. What is there by that name, or called like a model's
  // file, stays as it is.
  absl::StatusOr<std::string> ModelPath(const std::string& model) const;

 private:
  // The cluster's. FailedPrecondition where it keeps nothing.
  absl::StatusOr<std::string> StateDir() const;
  absl::StatusOr<CheckpointPlace> FindIn(const std::string& state_dir,
                                         const std::string& job) const;
  // When the newest part of a folder that can be read was written, Unix time; 0: none.
  int64_t WrittenMs(const std::string& folder) const;

  const Environment& env_;
  const ClusterFlag& cluster_;
};

}  // namespace monsoon
