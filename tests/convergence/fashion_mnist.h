// Trains the presets on the real Fashion-MNIST, on a whole cluster in one
// process and in the one-process trainer.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"

namespace monsoon::testing {

// A preset of configs/job with settings changed, as `submit --set` does.
absl::StatusOr<Job> Preset(const std::string& name, const std::vector<std::string>& overrides);

// The description of the job's end on one shard and `workers` one-thread
// workers.
absl::StatusOr<JobDescription> TrainOnCluster(const Job& job, int workers, absl::Duration timeout);

// The test accuracy that the one-process trainer reaches.
absl::StatusOr<double> TrainInOneProcess(const Job& job);

// Share of the pushes with a staleness above 0.
double StaleShare(const JobDescription& description);

}  // namespace monsoon::testing
