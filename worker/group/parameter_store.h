// ParameterStore: the replica's parameters, twice: the front is what steps
// compute with, the back is where a fetch lands. They change places at a step
// boundary, so parameters never change inside a step. Or once, where networks compute with copies
// of their own: there is no front then.
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
  enum class Kind { kTwice, kOnce };
  explicit ParameterStore(size_t floats, Kind kind = Kind::kTwice)
      : once_(kind == Kind::kOnce),
        front_(std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(floats))),
        back_(once_ ? front_ : std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(floats))) {}
  bool once() const { return once_; }

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
  // Empty where there is none.
  std::span<const float> front() const { return once_ ? std::span<const float>() : front_->span(); }
  // For local updates between steps.
  std::span<float> mutable_front() { return once_ ? std::span<float>() : front_->span(); }
  // What networks are given.
  SharedBuffer& front_buffer() { return front_; }
  // Both, for what is done with their memory once.
  std::array<AlignedFloats*, 2> buffers() { return {front_.get(), back_.get()}; }
  // What the front was fetched at; null before the first fetch.
  const SharedMarks& marks() const { return marks_; }

 private:
  bool once_;
  SharedBuffer front_;
  SharedBuffer back_;
  SharedMarks marks_;
};

}  // namespace monsoon
