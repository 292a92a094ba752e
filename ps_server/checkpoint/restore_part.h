// RestoreNewestPart: from the newest good part that this shard has of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/storage/storage.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

// Reads parts of shard `shard` of the job in `folder`, the newest generation first,
// until one holds against all its checksums, and makes the job of it. NotFound when
// there is none; `skipped`, if not null, gets a line for each that is damaged. Else as
// Shard::RestoreJob. Returns the generation.
absl::StatusOr<uint64_t> RestoreNewestPart(const Storage* storage, const std::string& folder,
                                           uint32_t shard_index, uint64_t term, Shard* shard,
                                           std::vector<std::string>* skipped);

}  // namespace monsoon
