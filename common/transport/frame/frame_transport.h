// FrameTransport: an ordered stream of frames to each of several peers, or several streams that
// have no order among them, without gRPC's types, so that what a client does can be tested and
// simulated.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {

// A frame to be sent, and maybe sent again.
struct Frame {
  std::shared_ptr<const std::string> head;  // prefix and header
  ByteChunk payload;                        // not owned
  // A place for the payload that lives as long as somebody holds `owner`; null: there is
  // none. Once *copied is true it lies there, and a transport may send it from there; one
  // that would copy it anyway may do that to there, and say so. Who sends frames does it
  // for the others. `copied` lives as long as the payload.
  struct Keep {
    std::shared_ptr<const void> owner;
    std::byte* at = nullptr;
    bool* copied = nullptr;
  };
  Keep keep;
  // Which of the peer's connections carries it: a number below FrameTransport::Connections.
  uint32_t connection = 0;

  size_t size() const { return head->size() + payload.size(); }
};

class FrameTransport {
 public:
  virtual ~FrameTransport() = default;

  // How many connections to `peer` the next frames may be spread over, each with a stream of its
  // own. To be asked while no frame of the peer is unanswered; may block as Send does.
  virtual uint32_t Connections(uint32_t /*peer*/) { return 1; }

  // Queues a frame, in order, on its connection's stream to `peer`; opens it if there is
  // none. Does not block. The payload stays as it is until the frame is answered,
  // the stream told as broken, or Reset.
  virtual void Send(uint32_t peer, Frame frame) = 0;

  struct Event {
    enum class Kind { kTimeout, kReceived, kBroken };
    Kind kind = Kind::kTimeout;
    uint32_t peer = 0;
    uint32_t connection = 0;  // of the peer's, of whose stream it tells
    // kReceived: the message; lives until the next Wait.
    std::span<const ByteChunk> frame;
    // kBroken: why. What was sent and not answered may or may not have been
    // served. The next Send opens a new stream. ABORTED: the stream gave way to
    // others of a server that has many; open it anew at once, the server lets it
    // wait for its turn.
    absl::Status status;
  };
  // Waits for the next event.
  virtual Event Wait(absl::Duration timeout) = 0;

  // Gives up all streams to `peer`: nothing more is told about them.
  virtual void Reset(uint32_t peer) = 0;
  // Gives up one connection's stream.
  virtual void ResetConnection(uint32_t peer, uint32_t /*connection*/) { Reset(peer); }
};

}  // namespace monsoon
