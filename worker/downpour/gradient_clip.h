// Gradient clipping by norm, and the name of the first value that is not finite,
// which clipping leaves for the caller to refuse.
//
// Thread safety: pure functions.
#pragma once

#include <span>
#include <string>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"

namespace monsoon {

// Scales `gradient` to at most `limit` of Euclidean norm (summed in double), but for its
// parts `left_out` (StatisticRanges), ascending, which neither count nor change.
// limit <= 0: nothing. A non-finite norm is left alone; the finite check
// refuses such a gradient. Returns the norm before.
double ClipGradientNorm(std::span<float> gradient, double limit,
                        std::span<const Slice> left_out = {});

// Multiplies those parts of `gradient`.
void ScaleParts(std::span<float> gradient, std::span<const Slice> parts, double factor);

// The first tensor of the layout with a value in `values` that is not finite,
// as "conv1/weight[17]"; empty when there is none.
std::string NameFirstNonFinite(const ParameterLayout& layout, std::span<const float> values);

}  // namespace monsoon
