// Loading and judging job files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/diagnostics.h"
#include "common/config/location_map.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

struct LoadOptions {
  // "downpour.n_fetch=4", "seed=3": see override.h. Applied in order.
  std::vector<std::string> overrides;
  // Read the data sets' headers and labels, and hold them against the model.
  bool check_data_files = true;
  // The data sets' files are those of other machines: what depends on them is left to these
  // (data_findings.h).
  bool files_are_elsewhere = false;
  // Read every sample too: values that are not finite, damage behind the headers.
  bool check_data_values = false;
  // In place of the file's, which is not read.
  const std::string* contents = nullptr;
  // The job was made before: what it does not say (Dataset.class_order) nobody says now.
  bool stored = false;
  // The text is a program's own: its model lists its tensors. Elsewhere such a job is an
  // error.
  bool joined = false;
  // Not null: receives where the fields stand.
  LocationMap* places = nullptr;
};

// Reads and judges a job file and its model file; blocks on the disk only. The
// result has the model in place of model_file, absolute paths, a name and the
// defaults of job.proto. On an error the status holds a line for each mistake
// and `diagnostics`, if given, receives them. `warnings`, if given, receives what
// is right and known to train badly (training_advice.h), unless there is an error.
absl::StatusOr<Job> LoadJob(const std::string& path, const LoadOptions& options = {},
                            std::vector<Diagnostic>* diagnostics = nullptr,
                            std::vector<Diagnostic>* warnings = nullptr);

// The judgement alone, of a job as LoadJob makes it or with defaults unset, by
// those who get it over the wire. Reads no data file.
absl::Status ValidateJob(const Job& job);

// Holds what the job takes from its training data (batch, sample, number of
// contributions) against the `examples` samples there are.
absl::Status ValidateJobOnData(const Job& job, uint64_t examples);

// Whether the job can run on the cluster: each shard gets a 64-byte line, there
// are workers enough (a joined job brings its own), and what each shard holds of it fits the memory
// limit of its ps task (other jobs not counted). The errors name the task and the sum.
absl::Status ValidateJobOnCluster(const Job& job, const Cluster& cluster);

// What is right and slow in the valid job's use of the cluster, for people: workers that may keep
// less than two of its pushes (replay_window_mib). "": nothing.
std::string AdviseOnCluster(const Job& job, const Cluster& cluster);

// A joined job: its model lists its tensors, and the programs that know the network make
// it and train it (docs/python.md). No job file is one.
inline bool IsJoined(const Job& job) { return job.model().tensor_size() > 0; }

// The workers have all of the state and sum gradients among themselves (proto/synchronous.proto).
// They write it to the shards, which have room for that beside what they hold
// (CreateShardJobRequest.store_only).
bool TrainsInGroups(const Job& job);

// Fills in what job.proto and dataset.proto say about unset fields. The model
// is left as it is.
void FillJobDefaults(Job* job);

// float32 values beside the optimizer's state, for each parameter: 2 with rounds for their sums, at
// most 2 with fetch_changes for the public copy and the changes that are kept.
int FloatsBesideOptimizer(const Downpour& downpour);

// Vectors beside the parameters that a Sandblaster job keeps on the shards at
// most: L-BFGS's pairs, and those of an iteration.
uint32_t SandblasterVectors(const Sandblaster& sandblaster);

// Bytes that a shard needs for its slice of `floats` floats (a multiple of 16):
// parameters, optimizer state, both once more where shards only store, sums of rounds, for
// Sandblaster vectors and exact sums, and what it keeps for each stripe and the job.
uint64_t ShardBytes(const Job& job, uint64_t floats);

// The same for each shard of `map`, tables of the model included. InvalidArgument names a table
// that cannot be cut for so many shards.
absl::StatusOr<std::vector<uint64_t>> BytesOfShards(const Job& job, const ParameterLayout& layout,
                                                    const ShardMap& map);

// How many workers may take part, the first ones; 0: all.
uint32_t WantedWorkers(const Job& job);

}  // namespace monsoon
