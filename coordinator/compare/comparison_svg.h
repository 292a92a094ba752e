// A comparison as a picture: accuracy, or loss, over seconds, a line a mode.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "coordinator/compare/comparison.h"

namespace monsoon {

// A whole SVG document without scripts, fonts of its own or anything from elsewhere. The lines are
// the medians of the seeds (MedianCurve); a mode without one is in the legend as such. A test
// accuracy that is asked for is a line of dashes.
std::string ComparisonSvg(const Comparison& comparison);

}  // namespace monsoon
