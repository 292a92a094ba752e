#include "coordinator/lbfgs/minimizer_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace monsoon {

absl::Status ValidateMinimizerOptions(const MinimizerOptions& options) {
  const LineSearchOptions& search = options.line_search;
  if (!(search.c1 > 0.0 && search.c1 < 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrCat("line_search.c1 is ", search.c1, "; it must be above 0 and below 0.5"));
  }
  if (!(search.c2 > search.c1 && search.c2 < 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "line_search.c2 is ", search.c2, "; it must be above c1 (", search.c1, ") and below 1"));
  }
  if (search.max_evaluations == 0 || !(search.f_floor >= 0.0)) {
    return absl::InvalidArgumentError(
        "line_search needs max_evaluations of at least 1 and a f_floor of at least 0");
  }
  for (const double tolerance :
       {options.tolerances.gradient, options.tolerances.relative_gradient, options.tolerances.f}) {
    if (!(tolerance >= 0.0) || !std::isfinite(tolerance)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tolerance is ", tolerance, "; it must be finite and at least 0"));
    }
  }
  return absl::OkStatus();
}

absl::string_view EndReasonName(EndReason reason) {
  switch (reason) {
    case EndReason::kConverged:
      return "converged";
    case EndReason::kFloatPrecision:
      return "float32_precision";
    case EndReason::kStalled:
      return "stalled";
    case EndReason::kMaxIterations:
      return "max_iterations";
    case EndReason::kLineSearchFailed:
      return "line_search_failed";
    case EndReason::kTargetReached:
      return "target_reached";
  }
  return "";
}

}  // namespace monsoon
