// FrameTransport through shared memory: one connection per peer on this host,
// as SharedMemoryServer (shm_server.h) gives it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/frame/frame_transport.h"
#include "common/transport/frame/read_counts.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

// As FrameTransport, but a stream must be opened by Connect before Send; Send
// to a peer without one is told as broken.
class SharedMemoryTransport : public FrameTransport {
 public:
  // ResourceExhausted or so when the system gives no memory.
  static absl::StatusOr<std::unique_ptr<SharedMemoryTransport>> Create(uint32_t peers);

  // Opens the stream to `peer`; gives up an older one. FailedPrecondition when
  // the offer is of another host or protocol, or of a folder that this process does not
  // see (socket_file.h), ResourceExhausted when the peer admits no more streams,
  // Unavailable when it is gone. Blocks until the peer answers, `deadline` at most.
  virtual absl::Status Connect(uint32_t peer, const SharedMemoryOffer& offer,
                               absl::Duration deadline) = 0;

  // Ends the Wait that another thread is in, or else the next one, at once and without an event.
  // Thread safe.
  virtual void Wake() = 0;

  // Whether there is a stream, be it broken.
  virtual bool connected(uint32_t peer) const = 0;

  // Parameters of a peer, a shard, that are read without a message.
  struct Mapping {
    std::unique_ptr<const SliceReader> reader;
    uint64_t shard_epoch = 0;
    ReadCounts* counts = nullptr;  // what was read, for the peer
  };
  // Those of the job, session and layout that `request` names, for as long as
  // the stream lives; null where there is no stream or the peer gives none.
  // `shape` lacks the epoch. The peer is asked once a stream; that blocks as
  // Connect does.
  virtual const Mapping* Map(uint32_t peer, const FetchRequest& request, const SharedShape& shape,
                             absl::Duration deadline) = 0;

  // What Map gave for the stream that there is now, without asking; null where it
  // was not asked for yet.
  virtual const Mapping* mapped(uint32_t peer) const = 0;

  // Whether the peer still holds its end of the stream. What was read from its
  // mapping before counts only if it does.
  virtual bool Alive(uint32_t peer) = 0;
};

}  // namespace monsoon
