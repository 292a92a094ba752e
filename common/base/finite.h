// Finds NaN and infinity by the exponent's bits, which no compiler flag can
// optimise away.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace monsoon {

// Whether none is NaN or infinite.
bool AllFinite(std::span<const float> values);

// Index of the first value that is NaN or infinite.
std::optional<uint64_t> FirstNonFinite(std::span<const float> values);

}  // namespace monsoon
