// RpcServer: a gRPC server with the settings that gRPC 1.51 needs: no port sharing, bounded
// messages, the health service.
//
// Thread safe after Start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/grpc/health_service.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"

namespace monsoon {

struct RpcServerOptions {
  // host:port (port 0: any free one), unix:PATH or unix-abstract:NAME.
  std::string address;
  // Allows an address that other machines can reach.
  bool insecure = false;
  // Largest message taken, in bytes; 0: gRPC's 4 MiB.
  int max_message_bytes = 0;
};

class RpcServer {
 public:
  // Binds and serves. `services` must outlive the server. FailedPrecondition
  // for an address that others reach, Unavailable when it cannot be bound;
  // both name it, and a port in use is called so, after two seconds: the process
  // that had it may have been killed this moment.
  //
  // `queue`, if not null, is set to the queue of the asynchronous services. Its
  // threads then poll for the synchronous ones too. It must be driven until
  // after the shutdown, then be shut down and drained.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const RpcServerOptions& options, const std::vector<grpc::Service*>& services,
      std::unique_ptr<grpc::ServerCompletionQueue>* queue = nullptr);
  // Shuts down at once.
  ~RpcServer();

  // Where clients reach it: the address with the port it got.
  const std::string& address() const { return address_; }
  // 0 for Unix sockets.
  int port() const { return port_; }

  // Takes no new calls, waits for those in progress, cancels what is left
  // after `grace`, and returns. May be called again.
  void Shutdown(absl::Duration grace);

 private:
  RpcServer() = default;

  std::string address_;
  int port_ = 0;
  HealthService health_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace monsoon
