#include "coordinator/lbfgs/minimizer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace monsoon {
namespace {

constexpr double kFloorInRoundoffs = 2.0;
// Iterations in a row at the floor of f that end a run: few when |g| stalls too,
// more while it still falls or grows (leaving a saddle point).
constexpr uint32_t kStalledIterations = 5;
constexpr uint32_t kFloorIterations = 20;
constexpr double kFallingGradient = 0.5;
constexpr double kGrowingGradient = 4.0;

// Tells when iterations change neither f nor g for real.
class FloorWatch {
 public:
  FloorWatch(double f_floor, double gradient_norm)
      : f_floor_(f_floor), best_(gradient_norm), last_(gradient_norm) {}

  void Add(double old_f, double f, double gradient_norm) {
    const bool falling = gradient_norm <= kFallingGradient * best_;
    const bool changed = std::abs(old_f - f) > f_floor_ * std::abs(old_f);
    at_floor_ = changed ? 0 : at_floor_ + 1;
    stalled_ = changed || falling ? 0 : stalled_ + 1;
    best_ = changed || falling ? gradient_norm : best_;
    last_ = gradient_norm;
  }
  bool reached() const {
    return at_floor_ >= kFloorIterations ||
           (stalled_ >= kStalledIterations && last_ <= kGrowingGradient * best_);
  }

 private:
  double f_floor_;
  double best_;
  double last_;
  uint32_t at_floor_ = 0;
  uint32_t stalled_ = 0;
};

// What a line search found.
struct Found {
  // Unset when it failed.
  std::optional<Point> point;
  double step = 0.0;
  bool at_floor = false;
};

class Driver {
 public:
  Driver(VectorSpace* space, Objective* objective, Direction* direction,
         const MinimizerOptions& options, const IterationObserver& observer)
      : space_(space),
        objective_(objective),
        direction_(direction),
        options_(options),
        observer_(observer) {
    options_.line_search.c2 = direction->CurvatureConstant(options_.line_search.c2);
    if (options_.line_search.f_floor == 0.0) {
      options_.line_search.f_floor = kFloorInRoundoffs * space->unit_roundoff();
    }
  }

  absl::StatusOr<MinimizerResult> Run(OwnedVector start);

 private:
  absl::Status EvaluateStart();
  absl::StatusOr<EndReason> Iterate();
  absl::StatusOr<Found> Search(const SearchDirection& along);
  // Search, once more from -g when it fails. `along` becomes what succeeded.
  absl::StatusOr<Found> SearchWithRestart(SearchDirection* along);
  absl::Status Report(double step_length);
  bool Converged() const;

  VectorSpace* space_;
  Objective* objective_;
  Direction* direction_;
  MinimizerOptions options_;
  const IterationObserver& observer_;

  Point at_;
  MinimizerResult result_;
};

bool Descends(const SearchDirection& along) {
  return std::isfinite(along.g_dot_d) && along.g_dot_d < 0.0 && std::isfinite(along.first_step) &&
         along.first_step > 0.0;
}

bool Driver::Converged() const {
  return std::sqrt(at_.g_dot_g) <=
         options_.gradient_tolerance * std::max(1.0, std::sqrt(at_.w_dot_w));
}

absl::Status Driver::Report(double step_length) {
  if (!observer_) {
    return absl::OkStatus();
  }
  return observer_({.iteration = result_.iterations,
                    .f = at_.f,
                    .gradient_norm = std::sqrt(at_.g_dot_g),
                    .step_length = step_length,
                    .evaluations = result_.evaluations,
                    .round_trips = space_->round_trips(),
                    .w = at_.w.name()});
}

absl::Status Driver::EvaluateStart() {
  at_.g = OwnedVector::New(space_, "g");
  ASSIGN_OR_RETURN(const ObjectiveValue value, objective_->Evaluate(at_.w.name(), at_.g.name()));
  ++result_.evaluations;
  bool finite = value.finite && std::isfinite(value.f);
  if (finite) {
    ASSIGN_OR_RETURN(const std::vector<double> dots,
                     space_->Gram({at_.g.name(), at_.w.name()}, {at_.g.name(), at_.w.name()}));
    at_.f = value.f;
    at_.g_dot_g = dots[0];
    at_.w_dot_w = dots[3];
    finite = std::isfinite(at_.g_dot_g) && std::isfinite(at_.w_dot_w);
  }
  if (!finite) {
    return absl::FailedPreconditionError(
        "the loss or its gradient is not finite at the initial parameters; check the "
        "initialiser and the scale of the data");
  }
  return absl::OkStatus();
}

absl::StatusOr<Found> Driver::Search(const SearchDirection& along) {
  MoreThuenteSearch search(options_.line_search, at_.f, along.g_dot_d, along.first_step);
  MoreThuenteSearch::Verdict verdict = MoreThuenteSearch::Verdict::kEvaluate;
  while (verdict == MoreThuenteSearch::Verdict::kEvaluate) {
    const double step = search.step();
    Point trial;
    trial.w = OwnedVector::New(space_, "w");
    trial.g = OwnedVector::New(space_, "g");
    RETURN_IF_ERROR(space_->Axpy(trial.w.name(), step, along.d.name(), at_.w.name()));
    ASSIGN_OR_RETURN(const ObjectiveValue value,
                     objective_->Evaluate(trial.w.name(), trial.g.name()));
    ++result_.evaluations;
    trial.f = HUGE_VAL;
    double slope = HUGE_VAL;
    if (value.finite) {
      ASSIGN_OR_RETURN(const std::vector<double> dots,
                       space_->Gram({trial.g.name(), trial.w.name()},
                                    {along.d.name(), trial.g.name(), trial.w.name()}));
      slope = dots[0];
      trial.g_dot_g = dots[1];
      trial.w_dot_w = dots[5];
      // g . g may overflow where f does not.
      trial.f = std::isfinite(trial.g_dot_g) ? value.f : HUGE_VAL;
    }
    verdict = search.Report(trial.f, slope);
    if (verdict == MoreThuenteSearch::Verdict::kAccepted) {
      return Found{.point = std::move(trial), .step = step};
    }
  }
  result_.line_search_failure =
      absl::StrCat(search.failure(), " (iteration ", result_.iterations + 1, ", ",
                   search.evaluations(), " evaluations, last step ", search.step(), ")");
  return Found{.at_floor = search.at_floor()};
}

absl::StatusOr<Found> Driver::SearchWithRestart(SearchDirection* along) {
  bool at_floor = false;
  if (Descends(*along)) {
    ASSIGN_OR_RETURN(Found found, Search(*along));
    if (found.point.has_value() || along->fresh) {
      return found;
    }
    at_floor = found.at_floor;
  }
  ++result_.restarts;
  direction_->Reset();
  ASSIGN_OR_RETURN(*along, direction_->Next(std::nullopt, at_));
  ASSIGN_OR_RETURN(Found found, Search(*along));
  found.at_floor |= at_floor;
  return found;
}

absl::StatusOr<EndReason> Driver::Iterate() {
  FloorWatch floor(options_.line_search.f_floor, std::sqrt(at_.g_dot_g));
  std::optional<Move> move;
  while (!Converged()) {
    if (floor.reached()) {
      return EndReason::kFloatPrecision;
    }
    if (result_.iterations >= options_.max_iterations) {
      return EndReason::kMaxIterations;
    }
    ASSIGN_OR_RETURN(SearchDirection along,
                     direction_->Next(std::exchange(move, std::nullopt), at_));
    ASSIGN_OR_RETURN(Found found, SearchWithRestart(&along));
    if (!found.point.has_value()) {
      return found.at_floor ? EndReason::kFloatPrecision : EndReason::kLineSearchFailed;
    }
    move = Move{std::exchange(at_, *std::move(found.point)), std::move(along), found.step};
    ++result_.iterations;
    floor.Add(move->from.f, at_.f, std::sqrt(at_.g_dot_g));
    RETURN_IF_ERROR(space_->Publish(at_.w.name()));
    RETURN_IF_ERROR(Report(found.step));
  }
  return EndReason::kConverged;
}

absl::StatusOr<MinimizerResult> Driver::Run(OwnedVector start) {
  at_.w = std::move(start);
  RETURN_IF_ERROR(EvaluateStart());
  RETURN_IF_ERROR(Report(0.0));
  ASSIGN_OR_RETURN(result_.reason, Iterate());
  direction_->Reset();
  result_.w = std::move(at_.w);
  result_.f = at_.f;
  result_.gradient_norm = std::sqrt(at_.g_dot_g);
  result_.round_trips = space_->round_trips();
  return std::move(result_);
}

}  // namespace

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
  if (!(options.gradient_tolerance >= 0.0) || !std::isfinite(options.gradient_tolerance)) {
    return absl::InvalidArgumentError(absl::StrCat("gradient_tolerance is ",
                                                   options.gradient_tolerance,
                                                   "; it must be finite and at least 0"));
  }
  return absl::OkStatus();
}

absl::string_view EndReasonName(EndReason reason) {
  switch (reason) {
    case EndReason::kConverged:
      return "converged";
    case EndReason::kFloatPrecision:
      return "converged: float32 precision";
    case EndReason::kMaxIterations:
      return "max iterations";
    case EndReason::kLineSearchFailed:
      return "line search failed";
  }
  return "";
}

absl::StatusOr<MinimizerResult> Minimize(VectorSpace* space, Objective* objective,
                                         Direction* direction, const MinimizerOptions& options,
                                         OwnedVector start, const IterationObserver& observer) {
  RETURN_IF_ERROR(ValidateMinimizerOptions(options));
  return Driver(space, objective, direction, options, observer).Run(std::move(start));
}

}  // namespace monsoon
