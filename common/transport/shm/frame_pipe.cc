#include "common/transport/shm/frame_pipe.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/finite.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr size_t kLengthBytes = 8;
// Copied, then looked at.
constexpr size_t kLookBytes = 16 << 10;

}  // namespace

void FrameSender::Begin(std::span<const ByteChunk> parts) {
  CHECK(!busy());
  size_t length = 0;
  parts_.clear();
  parts_.push_back(std::as_bytes(std::span(prefix_)));
  for (const ByteChunk& part : parts) {
    length += part.size();
    parts_.push_back(part);
  }
  CHECK_LE(length, kMaxFrameBytes);
  prefix_[0] = static_cast<uint32_t>(length);
  prefix_[1] = ~prefix_[0];
  part_ = 0;
  offset_ = 0;
}

absl::Status FrameSender::Continue() {
  while (busy()) {
    const ByteChunk rest = parts_[part_].subspan(offset_);
    const bool last = part_ + 1 == parts_.size();
    ASSIGN_OR_RETURN(const size_t written, ring_.Write(rest, /*quietly=*/whole_ || !last));
    if (written < rest.size()) {
      offset_ += written;
      break;
    }
    ++part_;
    offset_ = 0;
    if (last) {
      ring_.Tell();
    }
  }
  return absl::OkStatus();
}

absl::Status FrameReceiver::Place() {
  uint32_t length, complement;
  std::memcpy(&length, prefix_.data(), sizeof(length));
  std::memcpy(&complement, prefix_.data() + 4, sizeof(complement));
  if (length != ~complement || length > kMaxFrameBytes || length < kFramePrefixBytes) {
    return absl::DataLossError(
        absl::StrCat("a frame's length in a shared-memory ring is impossible: ", length));
  }
  // Where the payload begins, if this is a frame. If it is none, whoever
  // decodes it says so.
  size_t head = kFramePrefixBytes;
  for (int byte = 0; byte < 4; ++byte) {
    head += std::to_integer<size_t>(prefix_[kLengthBytes + 4 + byte]) << (8 * byte);
  }
  if (buffer_ == nullptr) {
    buffer_.reset(new (std::align_val_t(kAlignment)) std::byte[kBufferBytes]);
  }
  length_ = length;
  payload_ = head;
  looked_ = 0;
  finite_ = true;
  begin_ = (kAlignment - head % kAlignment) % kAlignment;
  std::memcpy(buffer_.get() + begin_, prefix_.data() + kLengthBytes, kFramePrefixBytes);
  return absl::OkStatus();
}

absl::StatusOr<bool> FrameReceiver::Continue() {
  if (complete_) {
    complete_ = false;
    received_ = 0;
  }
  if (received_ < prefix_.size()) {
    ASSIGN_OR_RETURN(const size_t size, ring_.Read(std::span(prefix_).subspan(received_)));
    received_ += size;
    if (received_ < prefix_.size()) {
      return false;
    }
    RETURN_IF_ERROR(Place());
  }
  size_t size = 0;
  do {
    const size_t done = received_ - kLengthBytes;
    const size_t most = looks_ ? std::min(length_ - done, kLookBytes) : length_ - done;
    ASSIGN_OR_RETURN(size, ring_.Read({buffer_.get() + begin_ + done, most}));
    received_ += size;
    if (looks_) {
      Look();
    }
    complete_ = received_ == kLengthBytes + length_;
  } while (size > 0 && !complete_);
  return complete_;
}

void FrameReceiver::Look() {
  const size_t done = received_ - kLengthBytes;
  const size_t floats = done <= payload_ ? 0 : (done - payload_) / sizeof(float);
  if (floats == looked_) {
    return;
  }
  // The payload lies at a boundary: see Place.
  const auto* const values = reinterpret_cast<const float*>(buffer_.get() + begin_ + payload_);
  finite_ = AllFinite({values + looked_, floats - looked_}) && finite_;
  looked_ = floats;
}

}  // namespace monsoon
