// Parts of a range, in and between others that ascend and do not overlap. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/shard_map.h"

namespace monsoon {

// As seen from `begin`, which none is before.
std::vector<Slice> Shifted(std::vector<Slice> slices, uint64_t begin);

// What `range` has outside of `others`, ascending.
std::vector<Slice> PartsOutside(const Slice& range, const std::vector<Slice>& others);

// Zero for what `others` have of `range`, whose floats are `part`.
void ClearInside(const Slice& range, const std::vector<Slice>& others, std::span<float> part);

}  // namespace monsoon
