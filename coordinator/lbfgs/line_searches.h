// LineSearches: searches from a point along directions, with evaluations of the objective. Where
// one fails, the noise of F along its direction is measured by evaluations close to the point, and
// it is repeated with what is a change of F now; and where that fails, once more from -g.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/minimizer_options.h"
#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/progress.h"
#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

// What a line search found.
struct Found {
  // Unset when it failed.
  std::optional<Point> point;
  double step = 0.0;
  bool at_floor = false;
  // How far F fell to `point` by the slopes at both ends, which tell what the noise of F hides.
  double fall = 0.0;
  // The step to the minimum as the smallest one tried tells it, were F a quadratic.
  std::optional<double> quadratic_step;
};

// What searches have cost, and how they ended.
struct SearchFigures {
  uint64_t evaluations = 0;
  // Searches that failed and were repeated from -g.
  uint32_t restarts = 0;
  // Times that the noise of F was measured, and the iteration of the last one.
  uint32_t noise_measurements = 0;
  std::optional<uint32_t> measured;
  // The last failed search, in words.
  std::string failure;
};

// It goes downhill, with numbers that can be computed with.
bool Descends(const SearchDirection& along);

class LineSearches {
 public:
  // All outlive this.
  LineSearches(VectorSpace* space, Objective* objective, Direction* direction,
               const LineSearchOptions& options, Progress* progress)
      : space_(space),
        objective_(objective),
        direction_(direction),
        options_(options),
        progress_(progress) {}

  // The same function of other variables.
  void SetObjective(Objective* objective) { objective_ = objective; }
  // Of the points that are searched from; for the words, and for how often noise is measured.
  void SetIteration(uint32_t iteration) { iteration_ = iteration; }

  // F and its gradient at `point`, whose w there is; counts. `along` names a direction, or is "".
  absl::StatusOr<ObjectiveValue> Evaluate(const Point& point, const std::string& along);
  absl::StatusOr<Found> Search(const Point& at, const SearchDirection& along);
  // `along` becomes what succeeded.
  absl::StatusOr<Found> SearchWithRestart(const Point& at, SearchDirection* along);

  const SearchFigures& figures() const { return figures_; }
  // A failure since then is nobody's.
  void ForgetFailure(const SearchFigures& before) { figures_.failure = before.failure; }
  void Restore(SearchFigures figures) { figures_ = std::move(figures); }

 private:
  // Once more with the measured noise of F when it fails.
  absl::StatusOr<Found> SearchAboveNoise(const Point& at, const SearchDirection& along);
  // Measures the noise of F along a direction; whether that changed the floor.
  absl::StatusOr<bool> MeasureNoise(const Point& at, const SearchDirection& along);
  absl::StatusOr<ObjectiveValue> EvaluateAt(const Point& at, const SearchDirection& along,
                                            double step, Point* trial);

  VectorSpace* const space_;
  Objective* objective_;
  Direction* const direction_;
  const LineSearchOptions options_;
  Progress* const progress_;
  uint32_t iteration_ = 0;
  SearchFigures figures_;
};

}  // namespace monsoon
