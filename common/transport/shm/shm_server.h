// SharedMemoryServer: a FrameServer for clients on the same host. It listens on
// an abstract Unix socket with a random name, which clients learn in some other
// way (of a shard: ShardStatusReply.shared_memory), and gives each one a memory
// file with two rings of frames (frame_channel.h).
//
// One thread accepts, watches the control sockets and ends connections; one
// thread per connection serves its frames in order, as FrameServer does for
// gRPC's streams and within the same message memory. A client that is gone
// frees its connection; nothing is left to clean up after any death.
//
// Clients of another user are refused. What a client may write is checked
// before it is used, so a bad one harms only its own connection.
//
// Thread safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/frame/frame_server.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

class SharedMemoryServer {
 public:
  // `frames` outlives the server. Unavailable where the system has no abstract
  // sockets or memory files.
  static absl::StatusOr<std::unique_ptr<SharedMemoryServer>> Start(FrameServer* frames);
  // Breaks all connections off; what is being served is finished.
  virtual ~SharedMemoryServer() = default;

  virtual const SharedMemoryOffer& offer() const = 0;
};

}  // namespace monsoon
