// ModelTransfer over the shards' data plane.
#pragma once

#include <functional>
#include <memory>

#include "coordinator/cli/environment.h"

namespace monsoon {

class Tls;

// Calls end within `deadline`. `tls` is asked by each for what MakeChannel takes.
std::unique_ptr<ModelTransfer> MakeShardTransfer(
    absl::Duration deadline, std::function<std::shared_ptr<Tls>()> tls = nullptr);

}  // namespace monsoon
