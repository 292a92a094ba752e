// BufferRing: buffers that are let go in about the order in which they were taken, and are
// then given out again: memory is asked for only while more are held than ever before. It
// comes for several buffers at a time, in huge pages: taken page by page it would cost more
// than the push that is copied there.
//
// Thread safety: none. Who holds a buffer may let it go in any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/memory/aligned_floats.h"
#include "common/memory/float_arena.h"
#include "ps_server/client/kept_bytes.h"

namespace monsoon {

class BufferRing {
 public:
  // A buffer of so many bytes that nobody else holds; what it contains is anything.
  std::shared_ptr<KeptBytes> Take(size_t bytes) {
    next_ = next_ < buffers_.size() ? next_ : 0;
    if (buffers_.empty() || buffers_[next_].use_count() > 1) {
      buffers_.insert(buffers_.begin() + static_cast<std::ptrdiff_t>(next_), Make(bytes));
    }
    // After whatever the last holder, in its thread, did with it.
    std::atomic_thread_fence(std::memory_order_acquire);
    std::shared_ptr<KeptBytes> buffer = buffers_[next_++];
    buffer->Resize(bytes);
    return buffer;
  }

  size_t size() const { return buffers_.size(); }

 private:
  // Memory of buffers that are smaller than a huge page, and not tiny.
  static constexpr size_t kBlockBytes = 4 * KeptBytes::kHugePageBytes;
  static constexpr size_t kLeastBytes = 16 << 10;

  std::shared_ptr<KeptBytes> Make(size_t bytes) {
    if (bytes < kLeastBytes || bytes >= KeptBytes::kHugePageBytes) {
      return std::make_shared<KeptBytes>(bytes);
    }
    const size_t floats = KeptBytes::FloatsFor(bytes);
    const size_t taken = FloatArena::BytesFor(1, floats);
    if (block_ == nullptr || block_left_ < taken) {
      absl::StatusOr<std::shared_ptr<FloatArena>> block = FloatArena::Create(kBlockBytes);
      if (!block.ok()) {
        return std::make_shared<KeptBytes>(bytes);
      }
      block_ = *std::move(block);
      block_left_ = kBlockBytes;
    }
    block_left_ -= taken;
    return std::make_shared<KeptBytes>(AlignedFloats(block_, floats), bytes);
  }

  std::shared_ptr<FloatArena> block_;  // the newest; buffers hold those that they are in
  size_t block_left_ = 0;              // bytes
  std::vector<std::shared_ptr<KeptBytes>> buffers_;
  size_t next_ = 0;
};

}  // namespace monsoon
