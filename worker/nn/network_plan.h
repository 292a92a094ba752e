// NetworkPlan: a Model resolved against its ParameterLayout into a plain list
// of layers with all shapes and flat offsets filled in; what every backend
// builds from. Knows no compute. Thread safety: immutable after Create.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "proto/model.pb.h"
#include "worker/nn/layer_plan.h"
#include "worker/nn/loss_plan.h"

namespace monsoon {

struct NetworkPlan {
  // InvalidArgument, naming the layer, for what no backend can run.
  static absl::StatusOr<NetworkPlan> Create(const Model& model, const ParameterLayout& layout);

  std::vector<LayerPlan> layers;  // each behind those that it takes
  LossPlan loss;
  bool is_chain = true;     // each layer takes the one before it alone
  std::vector<Slice> gaps;  // padding of the flat vector: zero in every gradient
  Extent input;
  // Of a model with embeddings: the sample's values are ids, whole numbers below this, the rows
  // of the smallest one. 0: any values.
  uint64_t id_limit = 0;
  uint64_t classes = 0;           // outputs at each step, loss.outputs
  uint64_t parameter_floats = 0;  // length of the flat vector
};

}  // namespace monsoon
