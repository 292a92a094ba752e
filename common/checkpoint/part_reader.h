// Opens a part's file by a manifest that may not be on the disk yet.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/storage/storage.h"

namespace monsoon {

// As PartReader::Open, with the file in `folder`.
absl::StatusOr<std::unique_ptr<PartReader>> OpenPart(const Storage* storage,
                                                     const std::string& folder,
                                                     CheckpointManifest manifest);

}  // namespace monsoon
