// FrameTransport through shared memory: one connection per shard on this host,
// as SharedMemoryServer (ps_server/shm_server.h) gives it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/client/frame_transport.h"

namespace monsoon {

// As FrameTransport, but a stream must be opened by Connect before Send; Send
// to a shard without one is told as broken.
class SharedMemoryTransport : public FrameTransport {
 public:
  // ResourceExhausted or so when the system gives no memory.
  static absl::StatusOr<std::unique_ptr<SharedMemoryTransport>> Create(uint32_t shards);

  // Opens the stream to `shard`; gives up an older one. FailedPrecondition when
  // the offer is of another host or protocol, ResourceExhausted when the shard
  // admits no more streams, Unavailable when it is gone. Blocks until the shard
  // answers, `deadline` at most.
  virtual absl::Status Connect(uint32_t shard, const SharedMemoryOffer& offer,
                               absl::Duration deadline) = 0;

  // Whether there is a stream, be it broken.
  virtual bool connected(uint32_t shard) const = 0;
};

}  // namespace monsoon
