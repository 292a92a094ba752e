// ShardVectorSpace: the vectors of one job on its shards (Dean et al. 2012,
// section 4.2). Each operation is one message to every shard; scalars are added
// in shard order.
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

 protected:
  absl::StatusOr<std::vector<double>> Execute(VectorRequest request) override;

 private:
  VectorShards* const shards_;
};

}  // namespace monsoon
