#include "common/transport/grpc/health_service.h"

#include "absl/status/status.h"

namespace monsoon {
namespace {

// HealthCheckResponse{status: SERVING}; an empty HealthCheckRequest names no
// service.
constexpr absl::string_view kServing = "\x08\x01";

}  // namespace

void AddHealthCalls(CallTable* calls) {
  calls->AddBytes(
      "/grpc.health.v1.Health/Check",
      [](const Caller&, absl::string_view request) -> absl::StatusOr<std::string> {
        if (!request.empty()) {
          return absl::NotFoundError("only the health of the whole server, \"\", is known");
        }
        return std::string(kServing);
      });
}

}  // namespace monsoon
