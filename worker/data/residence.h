// Whether a data set's samples are kept in memory (Dataset.residence).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// What this process could still take without others being swapped out or killed
// (AvailableMemory).
uint64_t FreeMemoryBytes();

// True: kept. AUTOMATIC keeps up to a quarter of `free`. InvalidArgument names `path` where
// ON_DISK is asked of what cannot be read in place: `why_not` says why, "" that it can;
// ResourceExhausted, with both numbers, where what must be kept is more than `free`.
absl::StatusOr<bool> IsKept(Dataset::Residence residence, uint64_t bytes, uint64_t free,
                            const std::string& path, const std::string& why_not);

}  // namespace monsoon
