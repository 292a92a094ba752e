// What a parameter server has left on the disk, as `up` sees it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/storage/storage.h"

namespace monsoon {

// The highest epoch in the names of the parts that shard `shard` has in
// STATE_DIR/jobs, of all jobs; 0 where it has none. Each life of a shard writes under
// an epoch above all earlier ones, so one that has made a checkpoint has raised this,
// whatever the clocks say. Lists folders, opens no file, blocks on the disk.
absl::StatusOr<uint64_t> NewestPartEpoch(const Storage& storage, const std::string& state_dir,
                                         uint32_t shard);

}  // namespace monsoon
