// What a parameter server has left on the disk, as `up` sees it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/storage/storage.h"

namespace monsoon {

// The highest epoch under which shard `shard` is known to have written a part, of any job:
// by the names of those in STATE_DIR/jobs, and by its own note (LastWriterPath), which
// tells of jobs that were deleted since; 0: none. Each life of a shard writes under an
// epoch above all earlier ones, so one that has made a checkpoint has raised this,
// whatever the clocks say. A note that cannot be read counts as none. Blocks on the disk.
absl::StatusOr<uint64_t> NewestPartEpoch(const Storage& storage, const std::string& state_dir,
                                         uint32_t shard);

}  // namespace monsoon
