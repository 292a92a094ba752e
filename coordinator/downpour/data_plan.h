// DataPlan: in which block of which epoch a Downpour job's limits in data end, from its
// beginning or from where an earlier job has come (proto/checkpoint.proto).
//
// Blocks are numbered over all epochs: epoch * blocks per epoch + block. Those that are
// not done are taken in that order.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <limits>

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

struct DataPlanOptions {
  uint64_t examples = 0;        // of the training set, > 0
  uint64_t block_examples = 0;  // > 0
  uint32_t batch_size = 0;      // > 0; batches do not span blocks
  Stop stop;                    // epochs and steps count from the very beginning
  // What was done before; valid for these blocks (ResumeProgress).
  DownpourProgress resumed;
};

struct DataPlan {
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  // One above the number of the last block; kNoLimit: there is no limit in data.
  uint64_t blocks = kNoLimit;
  uint64_t last_block_examples = 0;  // that it grants; 0: all that it has
  // In all blocks that are done and that will be.
  uint64_t examples = 0;

  // Of the limits that are set, the one that comes first.
  static DataPlan Make(const DataPlanOptions& options);
};

}  // namespace monsoon
