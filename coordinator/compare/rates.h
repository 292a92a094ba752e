// The learning rate of a job, as `coordinator compare --rates` tries several.
//
// Thread safety: pure functions.
#pragma once

#include <optional>

#include "proto/job.pb.h"

namespace monsoon {

// Of the optimizer that takes the steps: that of the replicas where these take steps of their own,
// else the shards'. Nothing where the job has none, as in batch.
std::optional<double> RateOf(const Job& job);

// Sets it, and with it, in proportion, what goes along: the rate of local_update, and those of
// groups of tensors and of muon. RateOf(*job) is there.
void SetRate(double rate, Job* job);

}  // namespace monsoon
