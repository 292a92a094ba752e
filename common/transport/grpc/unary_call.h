// One unary gRPC call with a deadline, as absl::StatusOr. Adapter code of this
// folder only.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/diagnosis.h"
#include "common/transport/grpc/reconnect.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace monsoon {

// Calls `(stub->*method)` over `channel`, which has `tls`. A coordinator that was not reached is
// named by `address`, and the channel goes on connecting meanwhile; what it answers keeps its
// message.
template <typename Stub, typename Request, typename Reply>
absl::StatusOr<Reply> UnaryCall(const std::shared_ptr<grpc::Channel>& channel, Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Reply*),
                                const Request& request, absl::Duration deadline,
                                const std::string& address, const std::shared_ptr<Tls>& tls) {
  grpc::ClientContext context;
  SetDeadline(&context, deadline);
  Reply reply;
  const grpc::Status answer = (stub->*method)(&context, request, &reply);
  const absl::Status status = FromGrpcStatus(answer);
  if (status.ok()) {
    return reply;
  }
  if (!IsFromPeer(answer) && (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
                              absl::IsUnimplemented(status))) {
    KeepConnecting(channel);
    return Annotate(Diagnose(status, address, tls),
                    absl::StrCat("coordinator at ", address, " not reached"));
  }
  return status;
}

}  // namespace monsoon
