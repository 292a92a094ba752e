#include "common/transport/grpc/status_conversion.h"

#include "absl/strings/match.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// gRPC tells these apart in its text only.
bool SaysNobodyListens(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (absl::StrContains(status.error_message(), "Connection refused") ||
          absl::StrContains(status.error_message(), "No such file or directory"));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message()));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  if (SaysNobodyListens(status)) {
    MarkNobodyListens(&result);
  }
  return result;
}

}  // namespace monsoon
