// ModelTransfer over the shards' data plane.
#pragma once

#include <memory>

#include "coordinator/cli/environment.h"

namespace monsoon {

// Calls end within `deadline`.
std::unique_ptr<ModelTransfer> MakeShardTransfer(absl::Duration deadline);

}  // namespace monsoon
