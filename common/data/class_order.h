// The order in which classes that words name are numbered.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace monsoon {

// Names that are numbers come first and by their value, as 0, 1, 2, 10 or 1.5, 2, 10.0; then words
// by their bytes. The places of `names` in that order; equal ones stay as they are.
std::vector<uint32_t> ClassOrder(std::span<const std::string> names);

// The same, done.
void SortClassNames(std::vector<std::string>* names);

// InvalidArgument, with both orders, where earlier builds numbered the classes otherwise: by the
// bytes of their names alone, as 0, 1, 10, 2. OK where it is all the same.
absl::Status CheckSameOrderBefore(std::span<const std::string> names);

// Of names that are numbers but for a few, one that is not, as "?" or "n/a" are where somebody
// wrote that a value is missing; "": there is none, or most are words.
std::string OddClassName(std::span<const std::string> names);

}  // namespace monsoon
