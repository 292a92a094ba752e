// FrameTransport through shared memory: one connection per shard on this host,
// as SharedMemoryServer (ps_server/shm_server.h) gives it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/shm/shared_slice.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"
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

  // Parameters of a shard that are read without a message.
  struct Mapping {
    std::unique_ptr<const SliceReader> reader;
    uint64_t epoch = 0;
    ReadCounts* counts = nullptr;  // what was read, for the shard
  };
  // Those of the job, session and layout that `request` names, for as long as
  // the stream lives; null where there is no stream or the shard gives none.
  // `shape` lacks the epoch. The shard is asked once a stream; that blocks as
  // Connect does.
  virtual const Mapping* Map(uint32_t shard, const FetchRequest& request, const SharedShape& shape,
                             absl::Duration deadline) = 0;

  // What Map gave for the stream that there is now, without asking; null where it
  // was not asked for yet.
  virtual const Mapping* mapped(uint32_t shard) const = 0;

  // Whether the shard still holds its end of the stream. What was read from its
  // mapping before counts only if it does.
  virtual bool Alive(uint32_t shard) = 0;
};

}  // namespace monsoon
