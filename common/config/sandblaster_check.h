// The meaning of a job's Sandblaster settings. Internal to config.
#pragma once

#include <cstdint>

#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// Tells `reporter` everything wrong with job.sandblaster and with what stands
// beside it in the job.
void CheckSandblaster(const Job& job, Reporter* reporter);

// Holds the batch of a Sandblaster job against its training data of `examples`
// samples.
void CheckSandblasterBatch(const Job& job, uint64_t examples, Reporter* reporter);

}  // namespace monsoon
