// GroupSum: the weighted sum of a replica group's gradients, for one contribution: a
// GradientSum on the host, or the same on the group's device, from which then only the
// sum comes to the host. Both give the same bits.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "common/memory/aligned_floats.h"
#include "worker/group/gradient_sum.h"
#include "worker/group/replica_group.h"

namespace monsoon {

class GroupSum {
 public:
  // `group` must outlive this.
  GroupSum(size_t floats, ReplicaGroup* group);

  // Computes the round of the group.
  absl::Status ComputeRound();

  // The next Add begins a new sum.
  void Clear();
  // Adds the gradient of batch i of the round, times its `examples`.
  void Add(size_t i, uint64_t examples);
  // The sum, rounded; not when empty. An error is the device's.
  absl::Status Round(std::span<float> out);

 private:
  ReplicaGroup* const group_;
  // On the host.
  AlignedFloats gradient_;  // of a group of one
  std::unique_ptr<GradientSum> host_;
  // On the device; null: on the host.
  std::unique_ptr<PlacedFloats> sum_;
  std::unique_ptr<PlacedFloats> rounded_;
  bool empty_ = true;
};

}  // namespace monsoon
