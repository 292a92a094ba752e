// AlignedBuffer: a fixed block of floats that starts on a 64-byte line.
//
// Values start as quiet NaN, so that a kernel which reads what nothing wrote,
// or leaves a hole in its output, shows at once in any test or loss.
//
// Thread safety: none of its own; movable, not copyable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <span>

namespace monsoon {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t floats)
      : data_(static_cast<float*>(::operator new(std::max<size_t>(floats, 1) * sizeof(float),
                                                 std::align_val_t(kAlignment)))),
        size_(floats) {
    std::fill_n(data_.get(), floats, std::numeric_limits<float>::quiet_NaN());
  }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), size_}; }
  std::span<const float> span() const { return {data_.get(), size_}; }
  void Fill(float value) { std::fill_n(data_.get(), size_, value); }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(float* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<float[], Free> data_;
  size_t size_ = 0;
};

}  // namespace monsoon
