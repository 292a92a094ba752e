// AbsentTensors: of a stripe's tensors, how many pushes had no gradient of each
// (PushRequest.absent). The stripe's version counts all pushes; an optimizer's own steps of a
// tensor are those that had a gradient of it.
//
// Thread safety: none; the stripe's lock is held.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/model/tensor_slices.h"
#include "common/optimizer/optimizer.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

class AbsentTensors {
 public:
  // What it takes of memory, at most, and for each of its tensors.
  static constexpr uint64_t kStripeBytes = 128;
  static constexpr uint64_t kTensorBytes = sizeof(TensorSlice) + sizeof(uint64_t);

  // `tensors` are in the order of the layout.
  explicit AbsentTensors(std::vector<TensorSlice> tensors) : tensors_(std::move(tensors)) {}

  // No push was without any of them.
  bool none() const { return pushes_.empty(); }

  // What a push moves that has no gradient of those in `absent`, which are numbers in the layout,
  // rising, of other stripes' tensors too.
  std::vector<OptimizerKernel::PushPart> PartsWithout(std::span<const uint32_t> absent) const;
  // Such a push was applied.
  void Count(std::span<const uint32_t> absent);

  void Clear() { pushes_.clear(); }
  void AddTo(StripeRecord* record) const;
  // A tensor that is not of the stripe is passed over, and no count is above the version.
  void Restore(const StripeRecord& record);

 private:
  const std::vector<TensorSlice> tensors_;
  std::vector<uint64_t> pushes_;  // of each tensor; empty: 0
};

}  // namespace monsoon
