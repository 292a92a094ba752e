// What is right in a job and known to train badly: warnings for people, not errors.
//
// What it does not do: judge a rate. That depends on the data; the end of a job
// says when its model guesses (JobSummary.reason).
#pragma once

#include <cstdint>

#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// Tells what is known of the valid `job` to the reporter of warnings:
// - momentum with n_push above 1, a rate that was not divided by it, no clipping and
//   no local update: a push is the sum of n_push gradients of one point;
// - Nesterov's momentum above 1/2 at each push, where several replicas may push;
// - batch normalisation of vectors whose last batch of an epoch is one sample of `examples`, if
//   that is not 0, since one value has no variance;
// - schedules that end before the job does, or long after it;
// - an early stop that keeps no best parameters, and a plateau's rate beside a local update's.
void AdviseTraining(const Job& job, uint64_t examples, Reporter* reporter);

}  // namespace monsoon
