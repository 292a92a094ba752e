// What `up` starts: the local tasks of a cluster file and their command lines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace monsoon {

enum class TaskRole { kCoordinator, kParameterServer, kWorker };

struct TaskPlan {
  std::string name;  // "ps/0"
  TaskRole role = TaskRole::kWorker;
  int index = 0;  // among those of its role in the cluster file
  std::string address;
  std::string port_file;  // the task writes it once it listens
  std::vector<std::string> argv;
};

struct PlanOptions {
  std::string cluster_path;
  std::string self_path;    // this executable; the others are found beside it
  std::string bin_dir;      // empty: as built by Bazel around self_path
  std::string port_folder;  // where port files go
  // Whether a task's host, which is not the loopback, is this machine; null: none is.
  std::function<bool(const std::string& host)> is_own_host;
  bool insecure = false;
  std::vector<std::string> data;  // --data of each worker
  std::string fault;
  // Of each task's log; "": its own choice, and no file.
  std::string verbosity;
  std::string log_file;
};

struct UpPlan {
  std::vector<TaskPlan> tasks;         // coordinator, shards, workers
  std::vector<std::string> not_local;  // "worker/3 at 10.0.0.7:2223"
};

// The tasks with a loopback or Unix address, and those whose host is this machine. InvalidArgument
// when there is none; NotFound names the binary that is missing and how to get it.
absl::StatusOr<UpPlan> PlanTasks(const Cluster& cluster, const PlanOptions& options);

// BIN_DIR/NAME/NAME, BIN_DIR/NAME, or without `bin_dir` ../NAME/NAME from this
// executable's folder. NotFound when none can be executed.
absl::StatusOr<std::string> FindBinary(const std::string& name, const std::string& bin_dir,
                                       const std::string& self_path);

}  // namespace monsoon
