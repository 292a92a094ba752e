#include "worker/server.h"

#include <utility>

#include "common/base/status.h"
#include "common/transport/grpc/rpc_server.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/method_handler.h"

namespace monsoon {
namespace {

class PingService : public grpc::Service {
 public:
  PingService() {
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/monsoon.Worker/Ping", grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<PingService, grpc::ByteBuffer, grpc::ByteBuffer,
                                             grpc::ByteBuffer, grpc::ByteBuffer>(
            [](PingService*, grpc::ServerContext*, const grpc::ByteBuffer* request,
               grpc::ByteBuffer* reply) {
              *reply = *request;
              return grpc::Status::OK;
            },
            this)));
  }
};

class GrpcWorkerServer : public WorkerServer {
 public:
  absl::Status Start(const std::string& address, bool insecure) {
    RpcServerOptions options;
    options.address = address;
    options.insecure = insecure;
    ASSIGN_OR_RETURN(server_, RpcServer::Start(options, {&service_}));
    return absl::OkStatus();
  }
  const std::string& address() const override { return server_->address(); }

 private:
  PingService service_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(const std::string& address,
                                                                  bool insecure) {
  auto server = std::make_unique<GrpcWorkerServer>();
  RETURN_IF_ERROR(server->Start(address, insecure));
  return server;
}

}  // namespace monsoon
