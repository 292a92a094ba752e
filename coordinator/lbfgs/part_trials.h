// PartTrials: searches along single parts of a vector, and along pairs of parts, where a run is
// about to say that it has converged or cannot go on. What they find no direction of the whole
// vector shows: where some gradients are larger than others by orders of magnitude, those promise
// next to nothing for all the rest.
//
// Costs 2 to 4 evaluations a part in mind, and 1 for each two parts; some 10 for two that are
// nearly one.
//
// Not thread safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/line_searches.h"
#include "coordinator/lbfgs/progress.h"
#include "coordinator/lbfgs/scaled_variables.h"
#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

class PartTrials {
 public:
  // All outlive this.
  PartTrials(VectorSpace* space, const Progress* progress, LineSearches* searches,
             ScaledVariables* variables)
      : space_(space), progress_(progress), searches_(searches), variables_(variables) {}

  // One line search along each part of -g in turn, and along what two parts that are nearly one do
  // not share. True: F fell by more than its noise, or it did not rise and its slopes tell of a
  // fall that is worth it (with many parts: by a share of F); `at` is then where the searches led,
  // and the variables may be scaled anew. Else `at` is as before.
  absl::StatusOr<bool> Run(Point* at);

  // Whether F goes on to fall where the parameters are twice as large: asked of a point, or known
  // from Run of it.
  absl::StatusOr<bool> FallsFarther(const Point& at);
  // The next point is another one.
  void ForgetPoint() { falls_farther_.reset(); }

  // Two parts were nearly one, so that directions tell of their difference to rounding only: a
  // minimum cannot be claimed.
  bool collinear() const { return collinear_; }
  void Restore(bool collinear) { collinear_ = collinear; }

 private:
  struct Trial {
    Point* at;
    std::optional<Point> from;  // where it began, once it has moved
    double fall = 0.0;          // of F since then, as slopes tell it
    OwnedVector by;
    std::vector<Selection> parts;
    // To the minimum along each part, were F a quadratic.
    std::vector<std::optional<double>> steps;

    void MoveTo(Found found) {
      if (!from.has_value()) {
        from = std::move(*at);
      }
      *at = *std::move(found.point);
      fall += found.fall;
    }
  };

  // The gradient where the parameters are twice as large, which tells the sizes of its elements:
  // here they may be rounding. Where there is none, the one here.
  absl::StatusOr<OwnedVector> LookFarther(const Point& at);
  absl::Status TryEach(Trial* trial);
  // Of two parts that are nearly one, the direction in which they undo each other: no search along
  // one of them finds it.
  absl::Status TryPairs(Trial* trial);
  // Two parts that are nearly one.
  struct Pair {
    OwnedVector x, y;    // a direction within each
    double apart = 0.0;  // 1 less the square of their correlation
    double share = 0.0;  // of y that does what x does
    Selection tensor;    // that of y
    double step = 0.0;   // along -g there
  };
  // The directions are those of `from`, a gradient. Nothing where they are told apart.
  absl::StatusOr<std::optional<Pair>> MakePair(const Trial& trial, size_t i, size_t j,
                                               const std::string& from);
  absl::Status TryPair(size_t i, size_t j, Trial* trial);
  // Along x, less what y does of it.
  absl::Status TryDifference(const Pair& pair, Trial* trial);
  // (g' - g) . v for both of `with`, where g' is the gradient one step along `along` from `at`;
  // nothing where that is not finite.
  absl::StatusOr<std::optional<std::vector<double>>> Curvatures(
      const Point& at, const std::string& along, const std::vector<std::string>& with);
  // F changes far along it, whatever y's tensor then makes good.
  absl::StatusOr<bool> ChangesFar(const Point& at, const std::string& along, const Pair& pair);
  absl::Status Rescale(Trial* trial);

  VectorSpace* const space_;
  const Progress* const progress_;
  LineSearches* const searches_;
  ScaledVariables* const variables_;
  bool collinear_ = false;
  std::optional<bool> falls_farther_;
};

}  // namespace monsoon
