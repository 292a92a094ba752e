// AlignedFloats: a fixed block of floats at a 64-byte boundary.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace monsoon {

class AlignedFloats {
 public:
  AlignedFloats() = default;
  // Zeroed.
  explicit AlignedFloats(size_t size)
      : size_(size), data_(new (std::align_val_t(kAlignment)) float[size]) {
    std::fill_n(data_.get(), size, 0.0f);
  }

  // Not zeroed: for memory that is written at once.
  static AlignedFloats Uninitialized(size_t size) {
    AlignedFloats floats;
    floats.size_ = size;
    floats.data_.reset(new (std::align_val_t(kAlignment)) float[size]);
    return floats;
  }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), size_}; }
  std::span<const float> span() const { return {data_.get(), size_}; }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(float* data) const { operator delete[](data, std::align_val_t(kAlignment)); }
  };

  size_t size_ = 0;
  std::unique_ptr<float[], Free> data_;
};

}  // namespace monsoon
