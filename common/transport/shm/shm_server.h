// SharedMemoryServer: a FrameServer for clients on the same host. It listens on
// a socket in this user's runtime folder (socket_file.h), whose path clients learn in some
// other way (of a shard: ShardStatusReply.shared_memory), and gives each one a memory
// file with two rings of frames (frame_channel.h).
//
// One thread accepts, watches the control sockets and ends connections; one
// thread per connection serves its frames in order, as FrameServer does for
// gRPC's streams and within the same message memory. A client that is gone
// frees its connection. A server that was killed leaves its socket's file, which the next one
// removes.
//
// Clients of another user are refused. What a client may write is checked
// before it is used, so a bad one harms only its own connection.
//
// Thread safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/process/runtime_folder.h"
#include "common/transport/frame/frame_server.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

class SharedMemoryServer {
 public:
  // `frames` outlives the server. Errors as of SocketFile::Listen; Unavailable where the system
  // tells no id of its host.
  static absl::StatusOr<std::unique_ptr<SharedMemoryServer>> Start(
      FrameServer* frames, const RuntimeFolder::Places& places = RuntimeFolder::OfEnvironment());
  // Breaks all connections off; what is being served is finished.
  virtual ~SharedMemoryServer() = default;

  // Without a socket: none any more, since its file was removed. The log has said so; clients that
  // are connected stay.
  virtual SharedMemoryOffer offer() const = 0;
};

}  // namespace monsoon
