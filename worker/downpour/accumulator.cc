#include "worker/downpour/accumulator.h"

#include <utility>

#include "common/base/check.h"

namespace monsoon {

Accumulator::Accumulator(size_t floats, uint32_t n_push)
    : n_push_(n_push),
      buffers_{AlignedFloats::NanFilled(floats), AlignedFloats::NanFilled(floats)},
      scratch_(AlignedFloats::NanFilled(n_push > 1 ? floats : 0)) {
  CHECK_GE(n_push, 1u);
}

std::span<float> Accumulator::step_buffer() {
  return steps_ == 0 ? buffers_[current_].span() : scratch_.span();
}

void Accumulator::Add(const SharedMarks& marks) {
  CHECK(!full());
  if (steps_ == 0) {
    base_ = marks;
  } else {
    float* const sum = buffers_[current_].data();
    const float* const g = scratch_.data();
    for (size_t i = 0; i < scratch_.size(); ++i) {
      sum[i] += g[i];
    }
  }
  ++steps_;
}

std::vector<BlockId> Accumulator::TakeBlocks() { return std::exchange(blocks_, {}); }

Accumulation Accumulator::Seal() {
  CHECK(!empty());
  Accumulation sealed{buffers_[current_].span(), std::move(base_), steps_, TakeBlocks()};
  base_ = nullptr;
  current_ = 1 - current_;
  steps_ = 0;
  return sealed;
}

}  // namespace monsoon
