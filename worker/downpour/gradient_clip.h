// Gradient clipping by norm, and the name of the first value that is not finite,
// which clipping leaves for the caller to refuse.
//
// Thread safety: pure functions.
#pragma once

#include <span>
#include <string>

#include "common/model/parameter_layout.h"

namespace monsoon {

// Scales `gradient` to at most `limit` of Euclidean norm (summed in double).
// limit <= 0: nothing. A non-finite norm is left alone; the finite check
// refuses such a gradient. Returns the norm before.
double ClipGradientNorm(std::span<float> gradient, double limit);

// The first tensor of the layout with a value in `values` that is not finite,
// as "conv1/weight[17]"; empty when there is none.
std::string NameFirstNonFinite(const ParameterLayout& layout, std::span<const float> values);

}  // namespace monsoon
