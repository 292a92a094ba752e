// OptimizerState: what an optimizer keeps of a range of parameters beside them: for each
// parameter a float in each of its slots. Slots lie one after the other, each as long as
// the range, so that a part of a range is not one piece of memory.
//
// A view, as a span: the floats are another's.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "common/base/check.h"

namespace monsoon {

// Of any optimizer.
inline constexpr int kMaxStateSlots = 3;

class OptimizerState {
 public:
  OptimizerState() = default;
  // Of a whole range: all of slot 0, then all of slot 1. From anything that is a span.
  template <typename Floats>
  requires std::convertible_to<Floats, std::span<float>> OptimizerState(Floats&& all) : all_(all) {}

  // The state of the range's parameters [begin, begin + size), where the range has `range`
  // of them.
  OptimizerState Part(size_t begin, size_t size, size_t range) const {
    OptimizerState part = *this;
    part.begin_ += begin;
    part.stride_ = stride_ == 0 ? range : stride_;
    CHECK(part.begin_ + size <= part.stride_);
    return part;
  }

  // Slot `slot` of an optimizer with `slots`, for a range of `size` parameters.
  float* Slot(int slot, int slots, size_t size) const {
    const size_t stride = stride_ == 0 ? size : stride_;
    CHECK(slot < slots && all_.size() == stride * static_cast<size_t>(slots) &&
          begin_ + size <= stride);
    return all_.data() + static_cast<size_t>(slot) * stride + begin_;
  }

  // The first `slots` of `of` slots, for a range of `size` parameters.
  OptimizerState First(int slots, int of, size_t size) const {
    OptimizerState first = *this;
    first.stride_ = stride_ == 0 ? size : stride_;
    CHECK(slots <= of && all_.size() == first.stride_ * static_cast<size_t>(of));
    first.all_ = all_.first(first.stride_ * static_cast<size_t>(slots));
    return first;
  }

  bool empty() const { return all_.empty(); }

 private:
  std::span<float> all_;
  size_t stride_ = 0;  // between the slots; 0: the size of the range
  size_t begin_ = 0;   // of the part in it
};

}  // namespace monsoon
