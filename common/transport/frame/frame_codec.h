// The frame of proto/tensor.proto over plain memory: magic, header length,
// header, payload. Knows no transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "proto/tensor.pb.h"

namespace monsoon {

inline constexpr size_t kFramePrefixBytes = 8;
inline constexpr size_t kMaxFrameHeaderBytes = 65536;
inline constexpr size_t kMaxFramePayloadBytes = 1 << 20;
inline constexpr size_t kMaxFrameBytes =
    kFramePrefixBytes + kMaxFrameHeaderBytes + kMaxFramePayloadBytes;
// So many records keep the header, and the answer's with its longest texts,
// under kMaxFrameHeaderBytes.
inline constexpr int kMaxFrameRecords = 256;

using ByteChunk = std::span<const std::byte>;

// Walks over a message that arrived in several pieces; a value may straddle
// two. Does not own the bytes.
class ChunkCursor {
 public:
  // `finite_payload`: whoever received the frame has looked, on the bytes that are here,
  // and each four of them from the payload's first on are a float that is finite.
  explicit ChunkCursor(std::span<const ByteChunk> chunks, bool finite_payload = false);

  // False: some is not, or nobody has looked.
  bool finite_payload() const { return finite_payload_; }

  size_t remaining() const { return remaining_; }
  // Moves on by `size` <= remaining() bytes, copied to `out`.
  void Copy(size_t size, void* out);
  // The next `size` <= remaining() bytes where they are, if they lie in one piece
  // at a multiple of `alignment`; else null. Does not move on.
  const std::byte* Peek(size_t size, size_t alignment) const;
  // Moves on without a copy.
  void Skip(size_t size) { Copy(size, nullptr); }

 private:
  std::span<const ByteChunk> chunks_;
  size_t chunk_ = 0;
  size_t offset_ = 0;  // within chunks_[chunk_]
  size_t remaining_ = 0;
  const bool finite_payload_;
};

// Prefix and header; the payload follows. The header is CHECKed to fit.
std::string EncodeFrameHead(const DataHeader& header);
// The same in place of what `head` holds, whose memory is used again.
void EncodeFrameHead(const DataHeader& header, std::string* head);

// Reads prefix and header and leaves `cursor` at the payload. InvalidArgument
// says what is wrong: a short frame, the magic, a length, the header.
absl::StatusOr<DataHeader> DecodeFrameHead(ChunkCursor* cursor);
// The same into `header`, which may lie in an arena; it allocates nothing else
// where the header came in one piece.
absl::Status DecodeFrameHead(ChunkCursor* cursor, DataHeader* header);

}  // namespace monsoon
