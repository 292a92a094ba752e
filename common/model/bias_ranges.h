// Where the biases of a model lie in its parameter vector: what decay and l2 may
// be told to leave alone.
#pragma once

#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"

namespace monsoon {

// The parts of `range` that belong to biases, ascending, in global indices.
std::vector<Slice> BiasRanges(const ParameterLayout& layout, const Slice& range);

}  // namespace monsoon
