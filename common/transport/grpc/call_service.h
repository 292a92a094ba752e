// CallService: serves the calls of a CallTable over gRPC. A call costs no thread until its
// request has come whole and it is its peer's turn (call_threads.h), and is dropped then if its
// client has gone or its deadline has passed: it may have waited, and what nobody waits for is
// not to be done.
//
// Thread safe after Start. gRPC's types stay in call_service.cc and its users' servers.
#pragma once

#include <memory>

#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/call_threads.h"
#include "common/transport/grpc/connections.h"
#include "common/transport/grpc/guard.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server_builder.h"

namespace monsoon {

class CallService {
 public:
  // Who takes back calls all the time (conduct.h) is cut off through `connections`. `guard` says
  // who calls, and whether he may. Both outlive this.
  static std::unique_ptr<CallService> Create(CallTable calls, const CallLimits& limits,
                                             Connections* connections, const Guard* guard);
  // After Stop, if it was started.
  virtual ~CallService() = default;

  // Registers it with one server, where it answers the calls that no service knows, too. (gRPC's
  // own answer to those crashes if they are taken back.)
  virtual void Register(grpc::ServerBuilder* builder) = 0;

  // Serves from `queue`, which QueueThreads drive until after Stop.
  virtual void Start(grpc::ServerCompletionQueue* queue) = 0;

  // Waits for what is being served; the server has been shut down.
  virtual void Stop() = 0;
};

}  // namespace monsoon
