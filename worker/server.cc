#include "worker/server.h"

#include <utility>

#include "common/base/status.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/rpc_server.h"

namespace monsoon {
namespace {

class GrpcWorkerServer : public WorkerServer {
 public:
  absl::Status Start(const std::string& address, std::shared_ptr<Tls> tls, bool insecure,
                     std::function<void(const std::string&)> on_trouble) {
    RpcServerOptions options;
    options.tls = std::move(tls);
    options.on_trouble = std::move(on_trouble);
    options.address = address;
    options.insecure = insecure;
    CallTable calls;
    calls.AddBytes("/monsoon.Worker/Ping",
                   [](const Caller&, absl::string_view request) { return std::string(request); });
    ASSIGN_OR_RETURN(server_, RpcServer::Start(options, std::move(calls)));
    return absl::OkStatus();
  }
  const std::string& address() const override { return server_->address(); }

 private:
  std::unique_ptr<RpcServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(
    const std::string& address, std::shared_ptr<Tls> tls, bool insecure,
    std::function<void(const std::string&)> on_trouble) {
  auto server = std::make_unique<GrpcWorkerServer>();
  RETURN_IF_ERROR(server->Start(address, std::move(tls), insecure, std::move(on_trouble)));
  return server;
}

}  // namespace monsoon
