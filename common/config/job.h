// Loading and judging job files.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/diagnostics.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

struct LoadOptions {
  // "downpour.n_fetch=4", "seed=3": see override.h. Applied in order.
  std::vector<std::string> overrides;
  // Read the data sets' headers and labels, and hold them against the model.
  bool check_data_files = true;
};

// Reads and judges a job file and its model file; blocks on the disk only. The
// result has the model in place of model_file, absolute paths, a name and the
// defaults of job.proto. On an error the status holds a line for each mistake
// and `diagnostics`, if given, receives them.
absl::StatusOr<Job> LoadJob(const std::string& path, const LoadOptions& options = {},
                            std::vector<Diagnostic>* diagnostics = nullptr);

// The judgement alone, of a job as LoadJob makes it or with defaults unset, by
// those who get it over the wire. Reads no data file.
absl::Status ValidateJob(const Job& job);

// Whether the job can run on the cluster: each shard gets a 64-byte line, there
// are workers enough, and each shard's slice with its optimizer state fits the
// memory limit of its ps task (other jobs not counted). The errors name the
// task and the sum.
absl::Status ValidateJobOnCluster(const Job& job, const Cluster& cluster);

// Fills in what job.proto and dataset.proto say about unset fields. The model
// is left as it is.
void FillJobDefaults(Job* job);

// float32 values of optimizer state kept for each parameter.
int OptimizerStateSlots(const Optimizer& optimizer);

}  // namespace monsoon
