// FrameListener: serves frames to other processes, over gRPC and, on the same
// host, through shared memory. Any process may have one, with a FrameHandler of
// its own:
//
//   EchoHandler handler;
//   FrameListener listener(&handler, {.message_memory_bytes = 64 << 20});
//   RETURN_IF_ERROR(listener.Listen({.address = "localhost:0"}, {}));
//   ... tell the clients listener.address() and listener.offer() ...
//
// Thread safe after Listen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/frame_handler.h"
#include "common/transport/frame/frame_server.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/frame_service.h"
#include "common/transport/grpc/rpc_server.h"
#include "common/transport/shm/shm_server.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

struct FrameListenerOptions {
  // What the frames in flight of all connections may take; says how many
  // connections are admitted.
  uint64_t message_memory_bytes = uint64_t{256} << 20;
  FaultOptions fault;
  // Offers shared memory too.
  bool shared_memory = true;
};

class FrameListener {
 public:
  // `handler` outlives this. Shared memory is served from here on; where the
  // system cannot do it there is a line in the log and no offer.
  FrameListener(FrameHandler* handler, const FrameListenerOptions& options);
  // Stops at once.
  ~FrameListener();
  FrameListener(const FrameListener&) = delete;
  FrameListener& operator=(const FrameListener&) = delete;

  // Binds and serves over gRPC, with `calls` beside the frames. Errors as of
  // RpcServer::Start. Once; without it there is shared memory only.
  struct Endpoint {
    std::string address;  // host:port or unix:PATH
    // As of RpcServerOptions.
    std::shared_ptr<Tls> tls;
    bool insecure = false;
    Guard::Membership membership = nullptr;
    // RpcServerOptions.on_trouble.
    std::function<void(const std::string&)> on_trouble = nullptr;
  };
  absl::Status Listen(const Endpoint& endpoint, CallTable calls);

  // With the port it got; after Listen.
  const std::string& address() const { return rpc_server_->address(); }
  int port() const { return rpc_server_->port(); }

  // Where clients on this host find the shared memory; without a socket: nowhere.
  SharedMemoryOffer offer() const;

  // For the control services of the same process.
  FrameServer* frames() { return &frames_; }

  // Waits until nothing is being served, for `grace` at most, and stops. New
  // requests are taken until then: a handler that is to refuse them does so
  // itself.
  void Drain(absl::Duration grace);

 private:
  // Lets waiting connections have their turns.
  void KeepTurns();

  FrameServer frames_;
  std::jthread turns_;
  std::unique_ptr<SharedMemoryServer> shared_memory_;  // null: not offered
  const std::unique_ptr<FrameService> frame_service_;
  std::unique_ptr<RpcServer> rpc_server_;  // null before Listen
};

}  // namespace monsoon
