// AlignedFloats: a fixed block of floats at a 64-byte boundary, of its own or
// of an arena.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "common/simd/float_arena.h"

namespace monsoon {

class AlignedFloats {
 public:
  AlignedFloats() = default;
  // Zeroed.
  explicit AlignedFloats(size_t size) : AlignedFloats(Uninitialized(size)) {
    std::fill_n(data_.get(), size, 0.0f);
  }
  // The next array of `arena`, zeroed: in huge pages and staggered. The arena
  // lives on with it.
  AlignedFloats(const std::shared_ptr<FloatArena>& arena, size_t size)
      : size_(size), data_(arena, arena->Take(size).data()) {}

  // Not zeroed: for memory that is written at once.
  static AlignedFloats Uninitialized(size_t size) {
    AlignedFloats floats;
    floats.size_ = size;
    floats.data_.reset(new (std::align_val_t(kAlignment)) float[size],
                       [](float* data) { operator delete[](data, std::align_val_t(kAlignment)); });
    return floats;
  }

  AlignedFloats(AlignedFloats&&) = default;
  AlignedFloats& operator=(AlignedFloats&&) = default;

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), size_}; }
  std::span<const float> span() const { return {data_.get(), size_}; }

 private:
  static constexpr size_t kAlignment = 64;

  size_t size_ = 0;
  std::shared_ptr<float> data_;  // of one owner; the arena's is shared
};

}  // namespace monsoon
