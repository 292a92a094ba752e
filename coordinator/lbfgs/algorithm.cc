#include "coordinator/lbfgs/algorithm.h"

#include "coordinator/lbfgs/conjugate_gradient.h"
#include "coordinator/lbfgs/gradient_descent.h"
#include "coordinator/lbfgs/lbfgs_direction.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultHistory = 10;

}  // namespace

std::unique_ptr<Direction> MakeDirection(const Sandblaster& config, VectorSpace* space) {
  switch (config.algorithm()) {
    case Sandblaster::NONLINEAR_CG:
      return std::make_unique<ConjugateGradient>(space);
    case Sandblaster::GRADIENT_DESCENT:
      return std::make_unique<GradientDescent>(space);
    default:
      return std::make_unique<LbfgsDirection>(
          space, config.history() == 0 ? kDefaultHistory : config.history());
  }
}

absl::StatusOr<MinimizerOptions> MakeMinimizerOptions(const Sandblaster& config) {
  MinimizerOptions options;
  if (config.max_iterations() != 0) {
    options.max_iterations = config.max_iterations();
  }
  options.tolerances = {.gradient = config.gradient_tolerance(),
                        .relative_gradient = config.relative_gradient_tolerance(),
                        .f = config.f_tolerance()};
  const LineSearch& search = config.line_search();
  if (search.c1() != 0.0) {
    options.line_search.c1 = search.c1();
  }
  if (search.c2() != 0.0) {
    options.line_search.c2 = search.c2();
  }
  if (search.max_evaluations() != 0) {
    options.line_search.max_evaluations = search.max_evaluations();
  }
  RETURN_IF_ERROR(ValidateMinimizerOptions(options));
  return options;
}

}  // namespace monsoon
