// A comparison for people, and as JSON.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "coordinator/compare/comparison.h"

namespace monsoon {

// A line a run, the medians of each mode behind them, and below what has to be said of modes and
// runs. "-": not measured, or never reached.
std::string ComparisonText(const Comparison& comparison);

// {"schema_version":1,"name":...}: one object, figures under the names of Figures(), and null where
// there is none (docs/operation.md).
std::string ComparisonJson(const Comparison& comparison);

}  // namespace monsoon
