// The meaning of a joined job: one of a model that lists its tensors, which the programs
// that join it train. Internal to config.
#pragma once

#include <cstdint>

#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// The batches of a block where the job does not say: 8, and with local steps a quarter of
// them, at most 64, as long as an epoch has 32 blocks.
uint32_t DefaultBlockBatches(const Job& job);

// Tells `reporter` everything that a joined job lacks or must not have.
void CheckJoined(const Job& job, Reporter* reporter);

// Tells `reporter` of what only a joined job has in one of a model of layers.
void CheckNotJoined(const Job& job, Reporter* reporter);

}  // namespace monsoon
