// Holds a plan of chaos against the cluster and the job that it is for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/chaos/cluster_view.h"
#include "proto/chaos.pb.h"

namespace monsoon {

// Tasks that the plan can hit: those of this machine that it names or its stars stand for.
// Sorted as in `view`.
std::vector<TaskView> TasksOfPlan(const ChaosPlan& plan, const ClusterView& view);

// INVALID_ARGUMENT names the entry and the task that the cluster does not have or that is
// not of this machine; a star must stand for one at least. FAILED_PRECONDITION: the job has
// ended, or an entry waits for generations that it does not make. `notes` receives a line
// for each task that a star leaves out.
absl::Status CheckPlanOnCluster(const ChaosPlan& plan, const ClusterView& view,
                                std::vector<std::string>* notes);

}  // namespace monsoon
