// RpcServer: a gRPC server with the settings that gRPC 1.51 needs: no port sharing, bounded
// messages, the health service; and with what it has not got: connections are taken by an
// AcceptLoop, which goes on when descriptors run out, and calls are served by a CallService, so
// that threads do not grow with what clients send.
//
// A client that never says its settings is cut off after 10 s, a connection without calls after
// five minutes; clients of Monsoon connect anew by themselves.
//
// Thread safe after Start.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/grpc/accept_loop.h"
#include "common/transport/grpc/call_service.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/connections.h"
#include "common/transport/grpc/guard.h"
#include "common/transport/grpc/queue_threads.h"
#include "common/transport/grpc/tls.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"

namespace monsoon {

struct RpcServerOptions {
  // host:port (port 0: any free one) or unix:PATH, which processes of this user and of root can
  // connect to.
  std::string address;
  // How connections over TCP prove who is there; those of Unix sockets are of the sockets' user.
  // Null: all may do everything, which an address that other machines can reach needs `insecure`
  // for.
  std::shared_ptr<Tls> tls;
  bool insecure = false;
  // Whether who has no certificate may connect as well, in order to join: asked for each
  // connection. Null: never.
  std::function<bool()> takes_strangers;
  Guard::Membership membership;
  // With `tls`: a connection ends after so long, and its client makes another one, with the
  // certificate that it has then. Less than what is left of one when it is renewed.
  absl::Duration longest_connection = absl::Hours(24);
  // Largest message taken, in bytes; 0: gRPC's 4 MiB.
  int max_message_bytes = 0;
  // That wait at queue(), where each event goes to the next of them: more are slower. As many come
  // as connections keep to themselves that send without a pause (queue_threads.h).
  unsigned queue_threads = 2;
  // Reads as much of a connection as has come before another one is read, which large messages
  // need. Otherwise it reads little, so that no connection holds up the others.
  bool bulk = false;
  CallLimits call_limits = {};
  // AcceptLoopOptions.on_trouble; it may be called before Start has returned.
  std::function<void(const std::string&)> on_trouble = nullptr;
};

class RpcServer {
 public:
  // Binds and serves `calls`, and `streams` if it is not null: an asynchronous service that
  // outlives the server and asks for its calls at queue() from then on. FailedPrecondition for
  // an address that others reach or a path that is not fit (unix_listener.h), Unavailable when it
  // cannot be bound; both name it, and a port in use is called so, after two seconds: the process
  // that had it may have been killed this moment.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                          CallTable calls,
                                                          grpc::Service* streams = nullptr);
  // Shuts down at once. Nothing of `streams` is under way any more.
  ~RpcServer();

  // Where clients reach it: the address with the port it got.
  const std::string& address() const { return address_; }
  // 0 for Unix sockets.
  int port() const { return port_; }
  // For `streams`; as long as this.
  const Guard* guard() const { return &guard_; }
  // Driven until this is destroyed; all its tags are QueueTags.
  grpc::ServerCompletionQueue* queue() const { return queue_->queue(); }

  // Takes no new calls, waits for those in progress, cancels what is left
  // after `grace`, and returns. May be called again.
  void Shutdown(absl::Duration grace);

 private:
  RpcServer() = default;

  // Builds and starts the server, and takes connections at `sockets` for it.
  absl::Status Serve(const RpcServerOptions& options, grpc::Service* streams,
                     std::vector<UniqueFd> sockets);

  std::string address_;
  int port_ = 0;
  std::string socket_path_;  // to be removed; "": none
  ino_t socket_inode_ = 0;
  Connections connections_;
  Guard guard_;
  std::unique_ptr<CallService> calls_;
  std::unique_ptr<QueueThreads> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<AcceptLoop> accept_loop_;  // null after Shutdown
};

}  // namespace monsoon
