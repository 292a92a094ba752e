// RunQuadratic: minimises the convex quadratic of synthetic_objective.h on real
// shards, just as the coordinator minimises a batch job there, but without
// workers and data. To measure shards and minimiser at any length of vector.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace monsoon::testing {

struct QuadraticRun {
  std::vector<std::string> shards;  // addresses
  Model model;                      // its parameters are the vector
  uint64_t seed = 1;
  double condition = 100;
  Sandblaster config;
};

// Makes a job on the shards, for which it waits up to 30 s, and deletes it in
// the end. The description has the fields `parameters` and `sandblaster`.
// Blocks all the while; for ever when a shard goes away.
absl::StatusOr<JobDescription> RunQuadratic(const QuadraticRun& run);

}  // namespace monsoon::testing
