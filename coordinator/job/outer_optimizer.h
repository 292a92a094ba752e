// What the shards of a job do with the differences of its replicas' local steps. One rule for jobs
// and programs, by which all shards go: an outer optimizer that is not set averages. In rounds it
// subtracts their mean; where differences come one by one, it is SGD with the rate 1/N, so that N
// replicas together move the parameters as far as one does. N is the number that the job names
// (Downpour.workers, or .programs), or else that of the workers that the cluster lists.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// The N of a job for `listed` workers; 1 where nothing is shared: no local steps, rounds, or an
// optimizer that is set.
uint32_t DifferenceSharers(const Job& job, uint32_t listed);

// The optimizer for a plan's `sharers`; 0: of a plan from before there were any, 1.
Optimizer OuterOptimizer(const Downpour& downpour, uint32_t sharers);

// In words: "sgd, rate 0.333333: the mean of 3 replicas, since no optimizer is set"; "" without
// local steps.
std::string OuterOptimizerText(const Job& job, uint32_t sharers);

// What is wrong where `programs` of the job's push differences at once, and what helps; "":
// nothing.
std::string AddedDifferences(const Job& job, uint32_t sharers, uint32_t programs);

}  // namespace monsoon
