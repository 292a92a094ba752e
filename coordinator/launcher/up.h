// `coordinator up`: starts the local tasks of a cluster file and watches them.
#pragma once

#include <string>

#include "coordinator/launcher/supervisor.h"
#include "coordinator/launcher/task_plan.h"
#include "proto/cluster.pb.h"

namespace monsoon {

struct UpOptions {
  // port_folder is made by RunUp.
  PlanOptions plan;
  // cluster_name and state_dir are set by RunUp; shard_loss_grace too, from the
  // cluster's lost_after_ms, where it is zero.
  SupervisorOptions supervisor;
};

// Call from the main thread, before other threads exist. Checks that all
// binaries are there and all addresses are free before anything is started.
// Returns an exit code (`coordinator help` lists them); 2 with a message on err_fd when the cluster
// cannot be started here.
int RunUp(const Cluster& cluster, UpOptions options);

}  // namespace monsoon
