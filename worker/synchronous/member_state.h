// MemberState: what each member of a synchronous job's group has: all parameters, the optimizer's
// state, and where they stand. Members that go on from one state and apply the same sums keep the
// same bits; a digest tells whether they do.
//
// Thread safety: none; the compute thread owns it. What Copy gives is another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/tensor_ranges.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/synchronous.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/group/parameter_store.h"

namespace monsoon {

class MemberState {
 public:
  // Parameters and each slot of the optimizer's state, one after another.
  struct Snapshot {
    std::vector<AlignedFloats> vectors;
    SynchronousPosition at;
    std::vector<std::span<const float>> spans() const;
  };

  // Without a state. `job` is valid; errors are those of its optimizer.
  static absl::StatusOr<std::unique_ptr<MemberState>> Create(const Job& job,
                                                             const ParameterLayout& layout);

  size_t size() const { return parameters_->size(); }
  const SharedBuffer& parameters() const { return parameters_; }
  // Parameters and slots, for whoever brings a state from elsewhere; Take follows.
  std::vector<std::span<float>> vectors();

  // There is a state, which stands there.
  bool has() const { return has_; }
  const SynchronousPosition& at() const { return at_; }
  // What the vectors hold stands there from now on.
  void Take(const SynchronousPosition& at);
  // They hold nothing any more.
  void Lose() { has_ = false; }

  // What the shards store, or began with; the number of updates is that of their versions.
  // `batches` is where it stands otherwise. Blocks as the client's fetches do.
  absl::Status Fetch(ParameterClient* client, uint64_t batches);

  // From now on a step is of so many batches (Synchronous.scale_rate).
  absl::Status SetBatches(uint64_t batches);

  // The step that the sum over `used` batches of gradients makes; `taken` batches of the order are
  // done with it. `sum` is scaled, and clipped, in place.
  void Apply(std::span<float> sum, uint64_t used, uint64_t taken);
  // A step whose gradients were of no use.
  void PassOver(uint64_t taken) { at_.set_batches(at_.batches() + taken); }

  // XXH3-64 of the vectors and of where they stand.
  uint64_t Digest() const;
  Snapshot Copy() const;

 private:
  MemberState(const Job& job, const ParameterLayout& layout);

  // Whether to apply a sum as it is comes to the same as to apply its mean at `k` times the rate,
  // but for rounding.
  bool TakesSums() const;

  const Optimizer optimizer_;
  const Synchronous::RateScale scale_;
  const TensorRanges tensors_;
  const std::vector<Slice> statistics_;
  std::unique_ptr<OptimizerKernel> kernel_;
  SharedBuffer parameters_;
  AlignedFloats slots_;  // all of slot 0, then all of slot 1
  bool has_ = false;
  SynchronousPosition at_;
};

}  // namespace monsoon
