// absl::Status <-> grpc::Status: the codes have the same numbers.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace monsoon {

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace monsoon
