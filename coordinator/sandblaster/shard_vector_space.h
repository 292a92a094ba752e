// ShardVectorSpace: the vectors of one job on its shards (Dean et al. 2012,
// section 4.2), and the sums of contributions, which become vectors. An operation
// that answers is one message to every shard, with those kept before it; scalars are
// added in shard order.
//
// Blocks and fails as VectorShards::Run does. Not thread safe.
#pragma once

#include "coordinator/lbfgs/vector_space.h"
#include "coordinator/sandblaster/vector_shards.h"

namespace monsoon {

class ShardVectorSpace : public VectorSpace {
 public:
  // `shards` must outlive this.
  explicit ShardVectorSpace(VectorShards* shards) : shards_(shards) {}

  double unit_roundoff() const override { return 0x1p-24; }

  // out = 1 where the parameter is a weight, 0 where it is a bias.
  absl::Status MarkWeights(const std::string& out);

  // Opens a sum on all shards, after what is kept.
  absl::Status Open(const OpenEvaluation& open);

  struct Closed {
    // Some shard's sum did not fit its quanta: no vector counts, and `out` is freed
    // with the next operation.
    bool evaluate_again = false;
    // Of close.gram; empty when no vector was made.
    std::vector<double> scalars;
  };
  // Closes it; on success `close.out` is a vector, unless it was abandoned or a probe.
  absl::StatusOr<Closed> Close(const CloseEvaluation& close);

 protected:
  absl::StatusOr<std::vector<double>> Execute(VectorRequest request) override;

 private:
  VectorShards* const shards_;
  // Some shard said so in the newest operation.
  bool evaluate_again_ = false;
};

}  // namespace monsoon
