// Where each tensor of a model lies in a part of its parameter vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"

namespace monsoon {

// What a part of the vector has of a tensor.
struct TensorSlice {
  uint32_t number = 0;  // in ParameterLayout::tensors()
  Slice floats;         // from the part's first float
};

// Those that `part` has something of, in the order of the layout.
std::vector<TensorSlice> TensorSlices(const ParameterLayout& layout, const Slice& part);

// Leaves those in `kept` that `others` has too; both rise.
void KeepCommon(std::span<const TensorSlice> others, std::vector<TensorSlice>* kept);

}  // namespace monsoon
