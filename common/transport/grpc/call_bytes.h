// One unary call of a method by its name, with the bytes of its request and of its answer: of what
// no stub of this folder knows.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/status_conversion.h"
#include "grpcpp/impl/client_unary_call.h"
#include "grpcpp/support/byte_buffer.h"

namespace monsoon {

// `waits`: for a server that is not there yet, or whose connection broke.
inline absl::StatusOr<std::string> CallBytes(const std::shared_ptr<grpc::Channel>& channel,
                                             const std::string& method, const std::string& request,
                                             absl::Duration deadline, bool waits) {
  const grpc::internal::RpcMethod rpc(method.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ClientContext context;
  SetDeadline(&context, deadline);
  context.set_wait_for_ready(waits);
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  grpc::ByteBuffer answer;
  const grpc::Status status =
      grpc::internal::BlockingUnaryCall(channel.get(), rpc, &context, message, &answer);
  grpc::Slice bytes;
  if (!status.ok() || !answer.DumpToSingleSlice(&bytes).ok()) {
    return FromGrpcStatus(status);
  }
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

}  // namespace monsoon
