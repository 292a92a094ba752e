// absl::Status <-> grpc::Status: the codes have the same numbers. What gRPC itself
// says of a connection ("failed to connect to all addresses; last error: ...") comes
// in plain words ("connection refused"); a peer's own message stays as it is.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace monsoon {

// What is said of a connection that ended, and of nothing else.
inline constexpr char kConnectionBroke[] = "the connection broke";

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// Whether the error is what a task of ours answered (by ToGrpcStatus), and not what
// gRPC says of the connection.
bool IsFromPeer(const grpc::Status& status);

}  // namespace monsoon
