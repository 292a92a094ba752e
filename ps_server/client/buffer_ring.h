// BufferRing: buffers that are let go in about the order in which they were taken, and are
// then given out again: memory is asked for only while more are held than ever before.
//
// Thread safety: none. Who holds a buffer may let it go in any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "ps_server/client/kept_bytes.h"

namespace monsoon {

class BufferRing {
 public:
  // A buffer of so many bytes that nobody else holds; what it contains is anything.
  std::shared_ptr<KeptBytes> Take(size_t bytes) {
    next_ = next_ < buffers_.size() ? next_ : 0;
    if (buffers_.empty() || buffers_[next_].use_count() > 1) {
      buffers_.insert(buffers_.begin() + static_cast<std::ptrdiff_t>(next_),
                      std::make_shared<KeptBytes>(bytes));
    }
    // After whatever the last holder, in its thread, did with it.
    std::atomic_thread_fence(std::memory_order_acquire);
    std::shared_ptr<KeptBytes> buffer = buffers_[next_++];
    buffer->Resize(bytes);
    return buffer;
  }

  size_t size() const { return buffers_.size(); }

 private:
  std::vector<std::shared_ptr<KeptBytes>> buffers_;
  size_t next_ = 0;
};

}  // namespace monsoon
