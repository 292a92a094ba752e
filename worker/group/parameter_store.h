// ParameterStore: the replica's parameters, twice: the front is what steps
// compute with, the back is where a fetch lands. They change places at a step
// boundary, so parameters never change inside a step.
//
// Thread safety: the owner (the compute thread) calls everything; another
// thread may write the back's floats until the owner's next Swap.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <utility>

#include "common/memory/aligned_floats.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

// Parameters that networks compute with. Shared, because a replica that was given
// up may read them longer than their owner.
using SharedBuffer = std::shared_ptr<AlignedFloats>;

// Shared, because a push in flight keeps the marks it is based on.
using SharedMarks = std::shared_ptr<const FetchMarks>;

class ParameterStore {
 public:
  explicit ParameterStore(size_t floats)
      : front_(std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(floats))),
        back_(std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(floats))) {}

  // Where the next fetch may write.
  std::span<float> back() { return back_->span(); }

  // A whole fetch has landed in the back: it becomes the front.
  void Swap(SharedMarks marks) {
    std::swap(front_, back_);
    marks_ = std::move(marks);
  }

  // A part of the front was fetched anew.
  void SetMarks(SharedMarks marks) { marks_ = std::move(marks); }

  bool empty() const { return marks_ == nullptr; }
  std::span<const float> front() const { return front_->span(); }
  // For local updates between steps.
  std::span<float> mutable_front() { return front_->span(); }
  // The front as networks hold it.
  SharedBuffer& front_buffer() { return front_; }
  // Both, for what is done with their memory once.
  std::array<AlignedFloats*, 2> buffers() { return {front_.get(), back_.get()}; }
  // What the front was fetched at; null before the first fetch.
  const SharedMarks& marks() const { return marks_; }

 private:
  SharedBuffer front_;
  SharedBuffer back_;
  SharedMarks marks_;
};

}  // namespace monsoon
