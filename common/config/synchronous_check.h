// What a job with `synchronous` may be, and what reduce: SHARDS stands for. Not for users of this
// folder.
#pragma once

#include <cstdint>

#include "common/config/reporter.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {

// Through the parameter servers: each step is a round, of all workers, or of the first ones where
// some are backups; what comes later is dropped.
void TrainInRoundsOfSteps(const Synchronous& synchronous, uint32_t workers, Downpour* downpour);

void CheckSynchronous(const Job& job, Reporter* reporter);

}  // namespace monsoon
