// Where a checkpoint lies, as people name it by a path; and what it says of its job.
//
// Thread safety: pure functions. They block on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/storage/storage.h"

namespace monsoon {

struct CheckpointPlace {
  std::string folder;    // a job's
  std::string manifest;  // a part was named: of that part
  // Without that: which; 0: the newest that is good.
  uint64_t generation = 0;
};

// `path` is a job's folder, a part's manifest, or its .safetensors file with the
// manifest beside it. NotFound: there is no such file or folder. InvalidArgument says
// what is there instead.
absl::StatusOr<CheckpointPlace> PlaceOf(const Storage* storage, const std::string& path);

// The newest good generation of the folder, or the one that was named. NotFound where
// there is none.
// `skipped`, and errors, as of LoadNewest and LoadGeneration.
absl::StatusOr<LoadedCheckpoint> LoadFrom(const Storage* storage, const CheckpointPlace& place,
                                          std::vector<std::string>* skipped);

}  // namespace monsoon
