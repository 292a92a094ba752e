// A message as it comes off the wire, in pieces: DecodeFrameHead refuses it, or
// what it read can be written again and read as the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/transport/frame/frame_codec.h"

namespace {

using monsoon::ByteChunk;

// Pieces of 1, 3, 7, ... bytes, or the whole if the first byte says so.
std::vector<ByteChunk> Cut(std::span<const std::byte> bytes, uint8_t how) {
  std::vector<ByteChunk> chunks;
  size_t piece = how % 4 == 0 ? bytes.size() : how;
  while (!bytes.empty()) {
    const size_t size = std::clamp<size_t>(piece, 1, bytes.size());
    chunks.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
    piece = 2 * piece + 1;
  }
  return chunks;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::vector<ByteChunk> chunks = Cut(std::as_bytes(std::span(data + 1, size - 1)), data[0]);
  monsoon::ChunkCursor cursor(chunks);
  const absl::StatusOr<monsoon::DataHeader> header = monsoon::DecodeFrameHead(&cursor);
  if (!header.ok()) {
    CHECK(!header.status().message().empty());
    return 0;
  }
  const size_t payload = cursor.remaining();
  CHECK_LE(payload, monsoon::kMaxFramePayloadBytes);
  std::vector<std::byte> copy(payload);
  cursor.Copy(payload, copy.data());
  // What protobuf writes may be longer than what it read.
  if (header->ByteSizeLong() <= monsoon::kMaxFrameHeaderBytes) {
    const std::string again = monsoon::EncodeFrameHead(*header);
    const ByteChunk whole = std::as_bytes(std::span(again));
    monsoon::ChunkCursor second({&whole, 1});
    const absl::StatusOr<monsoon::DataHeader> same = monsoon::DecodeFrameHead(&second);
    CHECK(same.ok());
    CHECK(same->SerializeAsString() == header->SerializeAsString());
  }
  return 0;
}
