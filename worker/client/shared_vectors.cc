#include "worker/client/shared_vectors.h"

#include <errno.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "worker/client/exchange.h"

namespace monsoon {

SharedVectors::~SharedVectors() {
  if (memory_ != nullptr) {
    munmap(memory_, mapped_bytes_);
  }
}

Result SharedVectors::Map(int memory, const EnteredJob& job) {
  bytes_ = job.values * job.value_bytes;
  stride_ = job.stride;
  mapped_bytes_ = SharedBytes(stride_);
  void* const mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (mapped == MAP_FAILED) {
    return {MONSOON_RESOURCE_EXHAUSTED, "no room for three vectors of " + std::to_string(bytes_) +
                                            " bytes: " + strerror(errno)};
  }
  memory_ = static_cast<float*>(mapped);
  return {};
}

void SharedVectors::SetDifferences(std::vector<FloatRange> ranges) {
  differences_ = std::move(ranges);
  size_t floats = 0;
  for (const FloatRange& range : differences_) {
    floats += range.size;
  }
  base_.assign(floats, 0.0f);
}

void SharedVectors::NoteBase() {
  float* base = base_.data();
  for (const FloatRange& range : differences_) {
    std::memcpy(base, parameters() + range.begin, range.size * sizeof(float));
    base += range.size;
  }
}

void SharedVectors::WriteDifferences() {
  float* base = base_.data();
  for (const FloatRange& range : differences_) {
    const float* const now = parameters() + range.begin;
    float* const out = gradient() + range.begin;
    for (size_t i = 0; i < range.size; ++i) {
      out[i] = base[i] - now[i];
      // The next difference begins where this one ends: what was sent is sent once.
      base[i] = now[i];
    }
    base += range.size;
  }
}

void SharedVectors::SendGradient(bool zero) {
  zeroes_ = zero;
  taken_before_ = FlagsIn(memory_, stride_)->gradients_taken.load(std::memory_order_relaxed);
}

void SharedVectors::ZeroIfTaken() {
  // The count is acquired: the sidecar's reads of the gradient come before these writes to it.
  if (zeroes_ &&
      FlagsIn(memory_, stride_)->gradients_taken.load(std::memory_order_acquire) != taken_before_) {
    ZeroAfterAnswer();
  }
}

void SharedVectors::ZeroAfterAnswer() {
  if (zeroes_) {
    zeroes_ = false;
    std::memset(gradient(), 0, bytes_);
  }
}

}  // namespace monsoon
