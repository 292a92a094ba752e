// Runs one served RPC under the injected faults of this process.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "common/rpc/fault.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/support/status.h"

namespace monsoon {

// Calls `serve`, which gives absl::StatusOr<Reply>, and fills in `reply`.
template <typename Reply, typename Serve>
grpc::Status ServeWithFaults(FaultInjector* injector, Reply* reply, Serve serve) {
  Fault fault;
  if (injector->enabled()) {
    fault = injector->Next();
    absl::SleepFor(fault.delay);
  }
  if (fault.loss == Fault::Loss::kRequest) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "injected fault: the request is lost");
  }
  absl::StatusOr<Reply> result = serve();
  if (fault.loss == Fault::Loss::kReply) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "injected fault: the answer is lost");
  }
  if (!result.ok()) {
    return ToGrpcStatus(result.status());
  }
  *reply = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace monsoon
