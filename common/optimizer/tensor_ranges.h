// TensorRanges: the parts of a parameter vector that an optimizer treats otherwise than the rest.
#pragma once

#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// Each list is ascending, in global indices, without overlap.
struct TensorRanges {
  std::vector<Slice> biases;      // BiasRanges
  std::vector<Slice> statistics;  // StatisticRanges
  // Of Optimizer.group, in its order; fewer: the last ones have none here. They have biases, too,
  // and no statistics.
  std::vector<std::vector<Slice>> groups;

  // What the layout has of them within `range`.
  static TensorRanges Of(const ParameterLayout& layout, const Optimizer& optimizer,
                         const Slice& range);
  TensorRanges Within(const Slice& range) const;
  bool empty() const { return biases.empty() && statistics.empty() && groups.empty(); }
};

}  // namespace monsoon
