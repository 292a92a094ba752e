// Runs one served RPC under the injected faults of this process.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/faulty_call.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/support/status.h"

namespace monsoon {

// Calls `serve`, which gives absl::StatusOr<Reply>, and fills in `reply`.
template <typename Reply, typename Serve>
grpc::Status ServeWithFaults(FaultInjector* injector, Reply* reply, Serve serve) {
  absl::StatusOr<Reply> result = CallWithFaults(injector, serve);
  if (!result.ok()) {
    return ToGrpcStatus(result.status());
  }
  *reply = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace monsoon
