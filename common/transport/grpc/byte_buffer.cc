#include "common/transport/grpc/byte_buffer.h"

#include "common/base/check.h"

namespace monsoon {

grpc::Slice MakeSlice(std::shared_ptr<const void> owner, const void* data, size_t size) {
  auto* holder = new std::shared_ptr<const void>(std::move(owner));
  return grpc::Slice(
      const_cast<void*>(data), size,
      [](void* user_data) { delete static_cast<std::shared_ptr<const void>*>(user_data); }, holder);
}

ReceivedFrame::ReceivedFrame(grpc::ByteBuffer* buffer) {
  CHECK(buffer->Dump(&slices_).ok());
  buffer->Clear();
  chunks_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    chunks_.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
  }
}

}  // namespace monsoon
