// AlignedFloats: a fixed block of floats at a 64-byte boundary, of its own or
// of an arena. A large block of its own has its pages to itself, so that they can be
// locked for a device.
//
// Thread safety: none of its own. Movable, not copyable; a block that was moved
// from has no memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "common/memory/float_arena.h"

namespace monsoon {

class AlignedFloats {
 public:
  AlignedFloats() = default;
  // Zeroed.
  explicit AlignedFloats(size_t size) : AlignedFloats(Uninitialized(size)) { Fill(0.0f); }
  // The next array of `arena`, zeroed: in huge pages and staggered. The arena
  // lives on with it.
  AlignedFloats(const std::shared_ptr<FloatArena>& arena, size_t size)
      : size_(size), data_(arena->Take(size).data(), Release(arena, kAlignment)) {}

  // Not zeroed: for memory that is written at once.
  static AlignedFloats Uninitialized(size_t size) {
    AlignedFloats floats;
    floats.size_ = size;
    const size_t alignment = size * sizeof(float) < kOwnPagesBytes ? kAlignment : kPageBytes;
    const size_t unit = alignment / sizeof(float);
    floats.data_ = std::unique_ptr<float[], Release>(
        new (std::align_val_t(alignment)) float[(size + unit - 1) / unit * unit],
        Release(nullptr, alignment));
    return floats;
  }

  // Filled with quiet NaN, so that a kernel which reads what nothing wrote, or
  // leaves a hole in its output, shows at once in any test or loss.
  static AlignedFloats NanFilled(size_t size) {
    AlignedFloats floats = Uninitialized(size);
    floats.Fill(std::numeric_limits<float>::quiet_NaN());
    return floats;
  }

  AlignedFloats(AlignedFloats&&) = default;
  AlignedFloats& operator=(AlignedFloats&&) = default;

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), size_}; }
  std::span<const float> span() const { return {data_.get(), size_}; }
  // Keeps `lock` until right before the memory goes: what a device has of its pages.
  void Keep(std::shared_ptr<void> lock) { data_.get_deleter().lock = std::move(lock); }
  void Fill(float value) { std::fill_n(data_.get(), size_, value); }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kOwnPagesBytes = 64 * 1024;

  struct Release {
    Release() : alignment(kAlignment) {}
    Release(std::shared_ptr<FloatArena> memory_of, size_t aligned)
        : arena(std::move(memory_of)), alignment(aligned) {}
    void operator()(float* data) {
      lock.reset();
      if (arena == nullptr) {
        operator delete[](data, std::align_val_t(alignment));
      }
    }
    std::shared_ptr<FloatArena> arena;  // whose the memory is; null: of its own
    size_t alignment;
    std::shared_ptr<void> lock;
  };

  size_t size_ = 0;
  std::unique_ptr<float[], Release> data_;
};

}  // namespace monsoon
