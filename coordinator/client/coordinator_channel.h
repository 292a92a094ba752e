// The gRPC channel to a coordinator. Adapter code of this folder only.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/channel.h"

namespace monsoon {

// Does not connect yet. A lost coordinator is tried again at least each second,
// so that any start order works.
std::shared_ptr<grpc::Channel> CoordinatorChannel(const std::string& address);

}  // namespace monsoon
