// Frames (proto/tensor.proto) through a byte ring. Each one is preceded by its
// length:
//
//   bytes 0..3   length of the frame L, uint32, at most kMaxFrameBytes
//   bytes 4..7   the bitwise complement of L
//   bytes 8..    the frame
//
// in the byte order of the host, which both ends share. A frame may be larger
// than what is free in the ring, or than the ring: it moves in pieces.
//
// Nothing blocks. DataLoss: the peer broke the rules, give the connection up.
//
// Thread safety: one thread per end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/shm/byte_ring.h"

namespace monsoon {

class FrameSender {
 public:
  explicit FrameSender(RingWriter ring) : ring_(ring) {}

  // Begins to send the frame that `parts` make up one after another. Their
  // bytes stay where they are while busy(). Not while busy().
  void Begin(std::span<const ByteChunk> parts);

  // When a receiver that sleeps is woken: once the frame is whole, or the ring full; else
  // (at first) when the last part begins to come, to read while the rest is written. A
  // receiver that is woken for the first bytes of a short frame waits for most of the
  // frame, and where the two share a core it stands in the writer's way.
  void TellOfWholeFrames(bool whole) { whole_ = whole; }

  // Moves on as far as there is room; afterwards busy() says whether all is
  // written.
  absl::Status Continue();
  bool busy() const { return part_ < parts_.size(); }

 private:
  RingWriter ring_;
  std::array<uint32_t, 2> prefix_ = {};
  std::vector<ByteChunk> parts_;
  size_t part_ = 0;
  size_t offset_ = 0;  // within parts_[part_]
  bool whole_ = false;
};

class FrameReceiver {
 public:
  explicit FrameReceiver(RingReader ring) : ring_(ring) {}

  // From the next frame on: each block of a payload that was copied out of the ring is
  // looked at while it lies in the first cache. Costs a fraction of a later look.
  void LookForFinite() { looks_ = true; }
  // Of the complete frame: ChunkCursor::finite_payload.
  bool finite_payload() const { return looks_ && finite_; }

  // Moves on as far as bytes have come. True: frame() is complete, and the next
  // call begins a new one.
  absl::StatusOr<bool> Continue();

  // Whether bytes of the next frame have come. Between frames only.
  bool begun() const { return ring_.HasBytes(); }

  // Gives back the memory of frames, until the next one comes. Between frames
  // only.
  void ReleaseMemory() { buffer_.reset(); }

  // In memory that belongs to the receiver. The payload begins at a 64-byte
  // boundary.
  ByteChunk frame() const { return {buffer_.get() + begin_, length_}; }

 private:
  static constexpr size_t kAlignment = 64;
  // Shifts the frame by less than the alignment.
  static constexpr size_t kBufferBytes = kMaxFrameBytes + kAlignment;
  struct Free {
    void operator()(std::byte* data) const {
      operator delete[](data, std::align_val_t(kAlignment));
    }
  };

  absl::Status Place();
  // What has come of the payload since the last look.
  void Look();

  RingReader ring_;
  // The length, then the frame's own prefix, which tells where the payload is.
  std::array<std::byte, 8 + kFramePrefixBytes> prefix_ = {};
  size_t length_ = 0;
  size_t begin_ = 0;     // of the frame within the buffer
  size_t payload_ = 0;   // its place within the frame, if this is one
  size_t received_ = 0;  // length and frame
  size_t looked_ = 0;    // floats
  bool looks_ = false;
  bool finite_ = false;
  bool complete_ = false;
  std::unique_ptr<std::byte[], Free> buffer_;  // of kBufferBytes, from the first frame on
};

}  // namespace monsoon
