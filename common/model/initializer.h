// Initial parameter values, a pure function of (seed, global index): any shard
// fills any slice with the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "common/model/parameter_layout.h"

namespace monsoon {

// Writes the initial values of flat indices [begin, begin + out.size()) to
// `out`; padding gets zero.
void Initialize(const ParameterLayout& layout, uint64_t seed, uint64_t begin, std::span<float> out);

}  // namespace monsoon
