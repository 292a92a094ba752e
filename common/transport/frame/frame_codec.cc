#include "common/transport/frame/frame_codec.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr char kMagic[] = {'M', 'S', 'N', '1'};

}  // namespace

ChunkCursor::ChunkCursor(std::span<const ByteChunk> chunks, bool finite_payload)
    : chunks_(chunks), finite_payload_(finite_payload) {
  for (const ByteChunk& chunk : chunks_) {
    remaining_ += chunk.size();
  }
}

void ChunkCursor::Copy(size_t size, void* out) {
  CHECK_LE(size, remaining_);
  remaining_ -= size;
  auto* to = static_cast<std::byte*>(out);
  while (size > 0) {
    const ByteChunk chunk = chunks_[chunk_];
    const size_t piece = std::min(size, chunk.size() - offset_);
    if (to != nullptr && piece > 0) {
      std::memcpy(to, chunk.data() + offset_, piece);
      to += piece;
    }
    size -= piece;
    offset_ += piece;
    if (offset_ == chunk.size()) {
      ++chunk_;
      offset_ = 0;
    }
  }
}

const std::byte* ChunkCursor::Peek(size_t size, size_t alignment) const {
  CHECK_LE(size, remaining_);
  if (chunk_ == chunks_.size() || chunks_[chunk_].size() - offset_ < size) {
    return nullptr;
  }
  const std::byte* data = chunks_[chunk_].data() + offset_;
  return reinterpret_cast<uintptr_t>(data) % alignment == 0 ? data : nullptr;
}

std::string EncodeFrameHead(const DataHeader& header) {
  std::string head;
  EncodeFrameHead(header, &head);
  return head;
}

void EncodeFrameHead(const DataHeader& header, std::string* head) {
  const size_t length = header.ByteSizeLong();
  CHECK_LE(length, kMaxFrameHeaderBytes);
  if (head->capacity() < kFramePrefixBytes + length) {
    // Room to grow: a header gets longer with its numbers.
    head->reserve(2 * (kFramePrefixBytes + length));
  }
  head->assign(kMagic, sizeof(kMagic));
  for (int shift = 0; shift < 32; shift += 8) {
    head->push_back(static_cast<char>(length >> shift));
  }
  CHECK(header.AppendToString(head));
}

absl::StatusOr<DataHeader> DecodeFrameHead(ChunkCursor* cursor) {
  DataHeader header;
  RETURN_IF_ERROR(DecodeFrameHead(cursor, &header));
  return header;
}

absl::Status DecodeFrameHead(ChunkCursor* cursor, DataHeader* header) {
  if (cursor->remaining() < kFramePrefixBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of ", cursor->remaining(), " bytes is shorter than its prefix"));
  }
  std::array<unsigned char, kFramePrefixBytes> prefix;
  cursor->Copy(prefix.size(), prefix.data());
  if (std::memcmp(prefix.data(), kMagic, sizeof(kMagic)) != 0) {
    return absl::InvalidArgumentError("the frame does not begin with MSN1");
  }
  uint32_t length = 0;
  for (int byte = 0; byte < 4; ++byte) {
    length |= static_cast<uint32_t>(prefix[4 + byte]) << (8 * byte);
  }
  if (length > kMaxFrameHeaderBytes || length > cursor->remaining()) {
    return absl::InvalidArgumentError(absl::StrCat("the frame's header has ", length,
                                                   " bytes; the limit is ", kMaxFrameHeaderBytes,
                                                   ", and ", cursor->remaining(), " came"));
  }
  bool parsed = false;
  if (const std::byte* whole = cursor->Peek(length, /*alignment=*/1)) {
    parsed = header->ParseFromArray(whole, static_cast<int>(length));
    cursor->Skip(length);
  } else {
    std::string bytes(length, '\0');
    cursor->Copy(length, bytes.data());
    parsed = header->ParseFromString(bytes);
  }
  if (!parsed) {
    return absl::InvalidArgumentError("the frame's header cannot be parsed");
  }
  if (cursor->remaining() > kMaxFramePayloadBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the frame's payload has ", cursor->remaining(),
                                                   " bytes; the limit is ", kMaxFramePayloadBytes));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
