// Accumulator: sums the gradients of n_push steps into one push, in two
// buffers, so that one is filled while the other is in flight.
//
// A push is the sum of batch means; nobody divides. Its base is the marks of
// its first step's parameters: the oldest fetch that contributed, since marks
// only grow within a session.
//
// Thread safety: none; the compute thread owns it. A sealed accumulation's
// floats may be used by the push thread until the next Seal.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/memory/aligned_floats.h"
#include "proto/coordinator.pb.h"
#include "worker/group/parameter_store.h"

namespace monsoon {

// One push, ready to go.
struct Accumulation {
  std::span<float> gradient;
  SharedMarks base;
  uint32_t steps = 0;
  // Blocks whose last step is in here: done once this is acknowledged.
  std::vector<BlockId> blocks;
};

class Accumulator {
 public:
  // n_push at least 1.
  Accumulator(size_t floats, uint32_t n_push);

  // Where the next step writes its gradient (all of it). May be written again
  // as long as Add is not called.
  std::span<float> step_buffer();

  // Adds what step_buffer() holds; `marks` are of the parameters it was
  // computed with.
  void Add(const SharedMarks& marks);

  // The step added last, or one that was dropped, ends `block`.
  void FinishBlock(const BlockId& block) { blocks_.push_back(block); }

  // All that step_buffer() can be in.
  std::array<AlignedFloats*, 3> buffers() { return {&buffers_[0], &buffers_[1], &scratch_}; }

  bool full() const { return steps_ == n_push_; }
  // No step and no block waits to be pushed.
  bool empty() const { return steps_ == 0; }
  // Blocks that wait for no gradient: all their later steps were dropped.
  std::vector<BlockId> TakeBlocks();

  // Closes the accumulation and starts the next one in the other buffer, which
  // must no longer be in flight. Not when empty.
  Accumulation Seal();

 private:
  const uint32_t n_push_;
  AlignedFloats buffers_[2];
  AlignedFloats scratch_;  // empty when n_push is 1
  int current_ = 0;
  uint32_t steps_ = 0;
  SharedMarks base_;
  std::vector<BlockId> blocks_;
};

}  // namespace monsoon
