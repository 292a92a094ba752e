// One unary gRPC call with a deadline, as absl::StatusOr. Adapter code of this
// folder only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace monsoon {

// Calls `(stub->*method)`. An unreachable coordinator is named by `address`;
// any other error keeps its message.
template <typename Stub, typename Request, typename Reply>
absl::StatusOr<Reply> UnaryCall(Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Reply*),
                                const Request& request, absl::Duration deadline,
                                const std::string& address) {
  grpc::ClientContext context;
  // A timespan: a step of the system clock does not move it.
  context.set_deadline(gpr_time_from_millis(absl::ToInt64Milliseconds(deadline), GPR_TIMESPAN));
  Reply reply;
  const grpc::Status status = (stub->*method)(&context, request, &reply);
  if (status.ok()) {
    return reply;
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
    return absl::Status(code, absl::StrCat("coordinator at ", address, " not reached: ",
                                           status.error_message()));
  }
  return absl::Status(code, status.error_message());
}

}  // namespace monsoon
