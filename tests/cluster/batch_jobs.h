// Small Sandblaster jobs for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"

namespace monsoon::testing {

// A softmax regression with L2 on synthetic data: convex, so that nearly every
// step is accepted at its first evaluation. One contribution per 16 samples.
Job BatchJob(uint32_t contributions, uint32_t iterations);

// What must have the same bits in two runs: f, gradient norm, step length and
// number of evaluations of each iteration.
struct TracePoint {
  double f = 0;
  double gradient_norm = 0;
  double step_length = 0;
  uint64_t evaluations = 0;

  bool operator==(const TracePoint&) const = default;
};
std::vector<TracePoint> TraceOf(const JobDescription& description);

// Mean of the evaluations after the first; the trace has at least two points.
double SecondsPerEvaluation(const JobDescription& description);

}  // namespace monsoon::testing
