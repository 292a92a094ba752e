#include "coordinator/lbfgs/algorithm.h"

#include "common/settings/number_rule.h"
#include "coordinator/lbfgs/conjugate_gradient.h"
#include "coordinator/lbfgs/gradient_descent.h"
#include "coordinator/lbfgs/lbfgs_direction.h"

namespace monsoon {
std::unique_ptr<Direction> MakeDirection(const Sandblaster& config, VectorSpace* space) {
  switch (config.algorithm()) {
    case Sandblaster::NONLINEAR_CG:
      return std::make_unique<ConjugateGradient>(space);
    case Sandblaster::GRADIENT_DESCENT:
      return std::make_unique<GradientDescent>(space);
    default:
      return std::make_unique<LbfgsDirection>(
          space, static_cast<uint32_t>(NumberOrUnset(config, "history")));
  }
}

absl::StatusOr<MinimizerOptions> MakeMinimizerOptions(const Sandblaster& config) {
  MinimizerOptions options;
  options.max_iterations = static_cast<uint32_t>(NumberOrUnset(config, "max_iterations"));
  options.tolerances = {.gradient = config.gradient_tolerance(),
                        .relative_gradient = config.relative_gradient_tolerance(),
                        .f = config.f_tolerance()};
  options.may_be_unbounded = config.l2() == 0.0;
  const LineSearch& search = config.line_search();
  options.line_search = {
      .c1 = NumberOrUnset(search, "c1"),
      .c2 = NumberOrUnset(search, "c2"),
      .max_evaluations = static_cast<uint32_t>(NumberOrUnset(search, "max_evaluations"))};
  RETURN_IF_ERROR(ValidateMinimizerOptions(options));
  return options;
}

}  // namespace monsoon
