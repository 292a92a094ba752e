// What every backend demands of a batch before it computes.
#pragma once

#include "absl/status/status.h"
#include "worker/nn/batch.h"
#include "worker/nn/network_plan.h"

namespace monsoon {

// InvalidArgument for an empty batch and another sample size than the plan's input; DataLoss, for
// the data are wrong and not the job, for a value that is no id where the plan wants ids.
absl::Status CheckSamples(const NetworkPlan& plan, const Batch& batch);

// That, and InvalidArgument for other numbers of labels or targets than the loss takes; DataLoss
// for labels outside the classes and targets outside [0, 1] where the loss needs shares.
absl::Status CheckBatch(const NetworkPlan& plan, const Batch& batch);

// Of samples that the plan's network takes.
SampleFormat FormatFor(const NetworkPlan& plan);

// Of the samples that are filled.
LossTargets TargetsOf(const Batch& batch);

}  // namespace monsoon
