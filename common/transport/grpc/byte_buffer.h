// Frames as gRPC messages: slices over existing memory, no copy.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/transport/frame/frame_codec.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace monsoon {

// A slice over [data, data + size) that keeps `owner` alive.
grpc::Slice MakeSlice(std::shared_ptr<const void> owner, const void* data, size_t size);

// A message as chunks. Holds the slices, so the chunks live as long as this.
class ReceivedFrame {
 public:
  // Takes the bytes out of `buffer`.
  explicit ReceivedFrame(grpc::ByteBuffer* buffer);
  const std::vector<ByteChunk>& chunks() const { return chunks_; }

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<ByteChunk> chunks_;
};

}  // namespace monsoon
