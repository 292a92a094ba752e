// FrameChannel: both directions of a connection in one memory file: requests
// from the client to the server, answers back, and the server's bell. The
// client's bell is in a file of its own, so that it can wait for several
// servers at once.
//
// Thread safety: one thread per side.
#pragma once

#include <cstddef>

#include "common/transport/shm/bell.h"
#include "common/transport/shm/byte_ring.h"
#include "common/transport/shm/frame_pipe.h"

namespace monsoon {

// A ring's bytes: a large frame is read out at one end while it is written at
// the other, and both rings of a connection stay in a cache.
inline constexpr size_t kRingBytes = 1 << 20;

// What lies at the beginning of the connection's memory; the rings follow at
// kRingsOffset.
struct ChannelMemory {
  Bell server_bell;
  RingIndexes requests;
  RingIndexes answers;
};

class FrameChannel {
 public:
  // 1 KiB for whatever else the two sides share; zero at first.
  static constexpr size_t kUserOffset = 3072;
  static constexpr size_t kRingsOffset = 4096;
  static constexpr size_t kMemoryBytes = kRingsOffset + 2 * kRingBytes;
  static_assert(sizeof(ChannelMemory) <= kUserOffset);

  enum class Side { kClient, kServer };
  // `memory` has kMemoryBytes, page-aligned and zero at first; it and
  // `client_bell` outlive the channel.
  FrameChannel(Side side, std::byte* memory, Bell* client_bell);

  FrameSender* sender() { return &sender_; }
  FrameReceiver* receiver() { return &receiver_; }

  static Bell* server_bell(std::byte* memory);

 private:
  FrameSender sender_;
  FrameReceiver receiver_;
};

}  // namespace monsoon
