// What is right in a job and known to train badly: warnings for people, not errors.
//
// What it does not do: judge a rate. That depends on the data; the end of a job
// says when its model guesses (JobSummary.reason).
#pragma once

#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// Tells what is known of the valid `job` to the reporter of warnings:
// - momentum with n_push above 1, a rate that was not divided by it, no clipping and
//   no local update: a push is the sum of n_push gradients of one point;
// - Nesterov's momentum above 1/2 at each push, where several replicas may push;
// - an early stop that keeps no best parameters, and a plateau's rate beside a local update's.
void AdviseTraining(const Job& job, Reporter* reporter);

}  // namespace monsoon
