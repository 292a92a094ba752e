// FrameTransport: one ordered stream of frames to each of several peers, without
// gRPC's types, so that what a client does can be tested and simulated.
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

  size_t size() const { return head->size() + payload.size(); }
};

class FrameTransport {
 public:
  virtual ~FrameTransport() = default;

  // Queues a frame, in order, on the stream to `peer`; opens it if there is
  // none. Does not block. The payload stays as it is until the frame is answered,
  // the stream told as broken, or Reset.
  virtual void Send(uint32_t peer, Frame frame) = 0;

  struct Event {
    enum class Kind { kTimeout, kReceived, kBroken };
    Kind kind = Kind::kTimeout;
    uint32_t peer = 0;
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

  // Gives up the stream to `peer`: nothing more is told about it.
  virtual void Reset(uint32_t peer) = 0;
};

}  // namespace monsoon
