#include "common/transport/grpc/health_service.h"

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/method_handler.h"
#include "grpcpp/support/slice.h"

namespace monsoon {
namespace {

using grpc::ByteBuffer;

// HealthCheckResponse{status: SERVING}; an empty HealthCheckRequest names no
// service.
constexpr char kServing[] = {0x08, 0x01};

}  // namespace

HealthService::HealthService() {
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Check", grpc::internal::RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<HealthService, ByteBuffer, ByteBuffer, ByteBuffer,
                                           ByteBuffer>(
          [](HealthService*, grpc::ServerContext*, const ByteBuffer* request, ByteBuffer* reply) {
            if (request->Length() != 0) {
              return grpc::Status(grpc::StatusCode::NOT_FOUND,
                                  "only the health of the whole server, \"\", is known");
            }
            const grpc::Slice serving(kServing, sizeof(kServing));
            *reply = ByteBuffer(&serving, 1);
            return grpc::Status::OK;
          },
          this)));
}

}  // namespace monsoon
