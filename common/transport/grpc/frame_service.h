// FrameService: a FrameServer on gRPC, a bidirectional stream of raw frames
// (proto/tensor.proto) per client. The few threads of the server's queue serve all streams: they
// carry the bytes of all connections and do what the frames ask for, so that no thread waits for
// one client and none must be woken for each frame.
//
// Thread safe. gRPC's types stay in frame_service.cc.
#pragma once

#include <memory>

#include "common/transport/frame/frame_server.h"
#include "common/transport/grpc/guard.h"

namespace grpc {
class ServerCompletionQueue;
class Service;
}  // namespace grpc

namespace monsoon {

class FrameService {
 public:
  // `frames` outlives the service.
  static std::unique_ptr<FrameService> Create(FrameServer* frames);
  // After Stop, if started, and after the server.
  virtual ~FrameService() = default;

  // What the server registers; lives as long as this.
  virtual grpc::Service* service() = 0;

  // Begins to serve the streams that come to `queue`, the server's, which QueueThreads
  // drive until after Stop. Once.
  // `guard`, which outlives the streams, says who sends them, and whether he may.
  virtual void Start(grpc::ServerCompletionQueue* queue, const Guard* guard) = 0;
  // Waits for the streams' ends: after the server was shut down, which cancels what they
  // still have to do.
  virtual void Stop() = 0;
};

}  // namespace monsoon
