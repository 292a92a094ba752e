// TensorRanges: the parts of a parameter vector that an optimizer treats otherwise than the rest.
#pragma once

#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/model/weight_matrices.h"
#include "proto/model.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// Each list is ascending, in global indices, without overlap.
struct TensorRanges {
  std::vector<Slice> biases;      // BiasRanges
  std::vector<Slice> statistics;  // StatisticRanges
  // Of Optimizer.group, in its order; fewer: the last ones have none here. They have biases, too,
  // and no statistics.
  std::vector<std::vector<Slice>> groups;
  // Those that Optimizer.muon moves: WeightMatrices, but for those that a group has. Of the whole
  // vector alone (OfModel): no part of one is one.
  std::vector<WeightMatrix> matrices;

  // All that the layout has of them; `model` is what it was made from.
  static TensorRanges OfModel(const Model& model, const ParameterLayout& layout,
                              const Optimizer& optimizer);
  // What the layout has of them within `range`, without matrices.
  static TensorRanges Of(const ParameterLayout& layout, const Optimizer& optimizer,
                         const Slice& range);
  TensorRanges Within(const Slice& range) const;
  bool empty() const {
    return biases.empty() && statistics.empty() && groups.empty() && matrices.empty();
  }
};

}  // namespace monsoon
