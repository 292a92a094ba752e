// Where the biases of a model lie in its parameter vector: what decay and l2 may
// be told to leave alone. Of a model that lists its tensors they are those of at most one
// dimension: biases, and the scales of normalisations.
#pragma once

#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"

namespace monsoon {

// The parts of `range` that belong to biases, ascending, in global indices.
std::vector<Slice> BiasRanges(const ParameterLayout& layout, const Slice& range);

// The parts of `range` that belong to statistics (TensorInfo), likewise.
std::vector<Slice> StatisticRanges(const ParameterLayout& layout, const Slice& range);

}  // namespace monsoon
