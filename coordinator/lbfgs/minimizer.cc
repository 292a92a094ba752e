#include "coordinator/lbfgs/minimizer.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/lbfgs/noise.h"

namespace monsoon {
namespace {

constexpr double kFloorInRoundoffs = 2.0;
// The noise of F is measured at steps of this part of the first one: far apart for
// float32, close enough to be smooth.
constexpr double kNoiseStep = 1e-2;
// Iterations between two measurements.
constexpr uint32_t kNoiseEvery = 4;

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
        observer_(observer),
        progress_(options.tolerances, options.line_search.f_floor == 0.0
                                          ? kFloorInRoundoffs * space->unit_roundoff()
                                          : options.line_search.f_floor) {
    options_.line_search.c2 = direction->CurvatureConstant(options_.line_search.c2);
  }

  absl::StatusOr<MinimizerResult> Run(OwnedVector start);
  absl::StatusOr<MinimizerResult> Continue(const MinimizerState& state, OwnedVector w);

 private:
  absl::Status EvaluateStart();
  // From the newest point, or from the report of it, with the direction that it had.
  absl::StatusOr<EndReason> Iterate(bool reported, std::optional<SearchDirection> along);
  absl::StatusOr<MinimizerResult> Finish(EndReason reason);
  MinimizerState Save(const std::optional<SearchDirection>& along) const;
  absl::StatusOr<Found> Search(const SearchDirection& along);
  // Search, once more with the measured noise of F when it fails.
  absl::StatusOr<Found> SearchAboveNoise(const SearchDirection& along);
  // The same, once more from -g when it fails. `along` becomes what succeeded.
  absl::StatusOr<Found> SearchWithRestart(SearchDirection* along);
  // Measures the noise of F along a direction; whether that changed the floor.
  absl::StatusOr<bool> MeasureNoise(const SearchDirection& along);
  absl::StatusOr<ObjectiveValue> EvaluateAt(const SearchDirection& along, double step,
                                            Point* trial);
  // Tells of the newest point and the direction from it; false when the observer wants no
  // more.
  absl::StatusOr<bool> Report(double step_length, const std::optional<SearchDirection>& along);
  EndReason StuckReason(bool at_floor) const;
  std::string Detail(EndReason reason) const;

  VectorSpace* space_;
  Objective* objective_;
  Direction* direction_;
  MinimizerOptions options_;
  const IterationObserver& observer_;

  Progress progress_;
  // The iteration of the last measurement of noise.
  std::optional<uint32_t> measured_;
  Point at_;
  MinimizerResult result_;
};

bool Descends(const SearchDirection& along) {
  return std::isfinite(along.g_dot_d) && along.g_dot_d < 0.0 && std::isfinite(along.first_step) &&
         along.first_step > 0.0;
}

// The decrease to the minimum along the direction, were F a quadratic.
std::optional<double> PromiseOf(const SearchDirection& along) {
  if (along.fresh || !Descends(along)) {
    return std::nullopt;
  }
  return -0.5 * along.first_step * along.g_dot_d;
}

MinimizerState Driver::Save(const std::optional<SearchDirection>& along) const {
  MinimizerState state;
  state.set_f(at_.f);
  state.set_g_dot_g(at_.g_dot_g);
  state.set_w_dot_w(at_.w_dot_w);
  state.set_g(at_.g.name());
  if (along.has_value()) {
    state.mutable_along()->set_d(along->d.name());
    state.mutable_along()->set_g_dot_d(along->g_dot_d);
    state.mutable_along()->set_first_step(along->first_step);
    state.mutable_along()->set_fresh(along->fresh);
  }
  direction_->Save(&state);
  *state.mutable_progress() = progress_.Save();
  state.set_iterations(result_.iterations);
  state.set_evaluations(result_.evaluations);
  state.set_restarts(result_.restarts);
  state.set_noise_measurements(result_.noise_measurements);
  state.set_line_search_failure(result_.line_search_failure);
  if (measured_.has_value()) {
    state.set_measured(*measured_);
  }
  state.set_round_trips(space_->round_trips());
  state.set_names(space_->names());
  return state;
}

absl::StatusOr<bool> Driver::Report(double step_length,
                                    const std::optional<SearchDirection>& along) {
  if (!observer_) {
    return true;
  }
  if (space_->keeps()) {
    RETURN_IF_ERROR(space_->Flush());
  }
  return observer_({.iteration = result_.iterations,
                    .f = at_.f,
                    .gradient_norm = std::sqrt(at_.g_dot_g),
                    .step_length = step_length,
                    .evaluations = result_.evaluations,
                    .round_trips = space_->round_trips(),
                    .w = at_.w.name(),
                    .state = [&] { return Save(along); }});
}

absl::Status Driver::EvaluateStart() {
  at_.g = OwnedVector::New(space_, "g");
  ASSIGN_OR_RETURN(const ObjectiveValue value,
                   objective_->Evaluate(at_.w.name(), at_.g.name(), ""));
  ++result_.evaluations;
  at_.f = value.f;
  at_.g_dot_g = value.g_dot_g;
  at_.w_dot_w = value.w_dot_w;
  if (!value.finite || !std::isfinite(value.f) || !std::isfinite(at_.g_dot_g) ||
      !std::isfinite(at_.w_dot_w)) {
    return absl::FailedPreconditionError(
        "the loss or its gradient is not finite at the initial parameters; check the "
        "initialiser and the scale of the data");
  }
  progress_.AddPoint(at_.f, std::sqrt(at_.g_dot_g), std::sqrt(at_.w_dot_w));
  return absl::OkStatus();
}

absl::StatusOr<ObjectiveValue> Driver::EvaluateAt(const SearchDirection& along, double step,
                                                  Point* trial) {
  trial->w = OwnedVector::New(space_, "w");
  trial->g = OwnedVector::New(space_, "g");
  RETURN_IF_ERROR(space_->Axpy(trial->w.name(), step, along.d.name(), at_.w.name()));
  ASSIGN_OR_RETURN(const ObjectiveValue value,
                   objective_->Evaluate(trial->w.name(), trial->g.name(), along.d.name()));
  ++result_.evaluations;
  return value;
}

absl::StatusOr<Found> Driver::Search(const SearchDirection& along) {
  LineSearchOptions options = options_.line_search;
  options.f_floor = progress_.f_floor();
  MoreThuenteSearch search(options, at_.f, along.g_dot_d, along.first_step);
  MoreThuenteSearch::Verdict verdict = MoreThuenteSearch::Verdict::kEvaluate;
  while (verdict == MoreThuenteSearch::Verdict::kEvaluate) {
    const double step = search.step();
    Point trial;
    ASSIGN_OR_RETURN(const ObjectiveValue value, EvaluateAt(along, step, &trial));
    // g . g may overflow where f does not.
    const bool finite = value.finite && std::isfinite(value.g_dot_g);
    trial.f = finite ? value.f : HUGE_VAL;
    trial.g_dot_g = value.g_dot_g;
    trial.w_dot_w = value.w_dot_w;
    verdict = search.Report(trial.f, finite ? value.g_dot_d : HUGE_VAL);
    if (verdict == MoreThuenteSearch::Verdict::kAccepted) {
      return Found{.point = std::move(trial), .step = step};
    }
  }
  result_.line_search_failure =
      absl::StrCat(search.failure(), " (iteration ", result_.iterations + 1, ", ",
                   search.evaluations(), " evaluations, last step ", search.step(), ")");
  return Found{.at_floor = search.at_floor()};
}

absl::StatusOr<bool> Driver::MeasureNoise(const SearchDirection& along) {
  constexpr int kMiddle = kNoisePoints / 2;
  std::vector<double> values;
  for (int i = 0; i < kNoisePoints; ++i) {
    if (i == kMiddle) {
      values.push_back(at_.f);
      continue;
    }
    Point trial;
    ASSIGN_OR_RETURN(const ObjectiveValue value,
                     EvaluateAt(along, (i - kMiddle) * kNoiseStep * along.first_step, &trial));
    if (!value.finite) {
      return false;
    }
    values.push_back(value.f);
  }
  ++result_.noise_measurements;
  const double before = progress_.f_floor();
  // Values too close to differ tell nothing: what was known stands.
  if (const std::optional<double> noise = EstimateNoise(values)) {
    progress_.NoteNoise(*noise);
  }
  return progress_.f_floor() != before;
}

absl::StatusOr<Found> Driver::SearchAboveNoise(const SearchDirection& along) {
  ASSIGN_OR_RETURN(Found found, Search(along));
  if (found.point.has_value() ||
      (measured_.has_value() && result_.iterations < *measured_ + kNoiseEvery)) {
    return found;
  }
  measured_ = result_.iterations;
  ASSIGN_OR_RETURN(const bool other_floor, MeasureNoise(along));
  return other_floor ? Search(along) : std::move(found);
}

absl::StatusOr<Found> Driver::SearchWithRestart(SearchDirection* along) {
  bool at_floor = false;
  if (Descends(*along)) {
    ASSIGN_OR_RETURN(Found found, SearchAboveNoise(*along));
    if (found.point.has_value() || along->fresh) {
      return found;
    }
    at_floor = found.at_floor;
  }
  ++result_.restarts;
  direction_->Reset();
  ASSIGN_OR_RETURN(*along, direction_->Next(std::nullopt, at_));
  ASSIGN_OR_RETURN(Found found, SearchAboveNoise(*along));
  found.at_floor |= at_floor;
  return found;
}

EndReason Driver::StuckReason(bool at_floor) const {
  if (progress_.at_float_precision()) {
    return EndReason::kFloatPrecision;
  }
  return at_floor || progress_.below_noise() ? EndReason::kStalled : EndReason::kLineSearchFailed;
}

absl::StatusOr<EndReason> Driver::Iterate(bool reported, std::optional<SearchDirection> along) {
  std::optional<Move> move;
  double step = 0.0;
  while (true) {
    bool goes_on = true;
    if (!std::exchange(reported, false)) {
      along.reset();
      if (at_.g_dot_g > 0.0) {
        ASSIGN_OR_RETURN(along, direction_->Next(std::exchange(move, std::nullopt), at_));
        progress_.AddPromise(PromiseOf(*along));
      }
      ASSIGN_OR_RETURN(goes_on, Report(step, along));
    }
    if (progress_.converged()) {
      return EndReason::kConverged;
    }
    if (!goes_on) {
      return EndReason::kTargetReached;
    }
    if (progress_.stalled()) {
      return StuckReason(/*at_floor=*/true);
    }
    if (result_.iterations >= options_.max_iterations) {
      return EndReason::kMaxIterations;
    }
    ASSIGN_OR_RETURN(Found found, SearchWithRestart(&*along));
    if (!found.point.has_value()) {
      return StuckReason(found.at_floor);
    }
    step = found.step;
    move = Move{std::exchange(at_, *std::move(found.point)), *std::move(along), step};
    ++result_.iterations;
    progress_.AddPoint(at_.f, std::sqrt(at_.g_dot_g), std::sqrt(at_.w_dot_w));
    RETURN_IF_ERROR(space_->Publish(at_.w.name()));
  }
}

std::string Driver::Detail(EndReason reason) const {
  std::string text = progress_.Figures();
  switch (reason) {
    case EndReason::kStalled:
      absl::StrAppend(&text,
                      "; rounding hides what is left to gain: standardise the features, or "
                      "raise l2");
      break;
    case EndReason::kLineSearchFailed:
      absl::StrAppend(&text, "; no step lowers F: ", result_.line_search_failure);
      break;
    case EndReason::kMaxIterations:
      absl::StrAppend(&text, "; raise max_iterations to go on");
      break;
    default:
      break;
  }
  return text;
}

absl::StatusOr<MinimizerResult> Driver::Run(OwnedVector start) {
  at_.w = std::move(start);
  RETURN_IF_ERROR(EvaluateStart());
  ASSIGN_OR_RETURN(const EndReason reason, Iterate(/*reported=*/false, std::nullopt));
  return Finish(reason);
}

absl::StatusOr<MinimizerResult> Driver::Continue(const MinimizerState& state, OwnedVector w) {
  if (state.g().empty() || state.has_along() != (state.g_dot_g() > 0.0) ||
      state.progress().f().empty()) {
    return absl::InvalidArgumentError("no state of a minimiser: it has no gradient or direction");
  }
  at_.w = std::move(w);
  at_.g = OwnedVector(space_, state.g());
  at_.f = state.f();
  at_.g_dot_g = state.g_dot_g();
  at_.w_dot_w = state.w_dot_w();
  RETURN_IF_ERROR(direction_->Restore(state));
  progress_.Restore(state.progress());
  result_.iterations = state.iterations();
  result_.evaluations = state.evaluations();
  result_.restarts = state.restarts();
  result_.noise_measurements = state.noise_measurements();
  result_.line_search_failure = state.line_search_failure();
  if (state.has_measured()) {
    measured_ = state.measured();
  }
  std::optional<SearchDirection> along;
  if (state.has_along()) {
    along = SearchDirection{.d = OwnedVector(space_, state.along().d()),
                            .g_dot_d = state.along().g_dot_d(),
                            .first_step = state.along().first_step(),
                            .fresh = state.along().fresh()};
  }
  ASSIGN_OR_RETURN(const EndReason reason, Iterate(/*reported=*/true, std::move(along)));
  return Finish(reason);
}

absl::StatusOr<MinimizerResult> Driver::Finish(EndReason reason) {
  result_.reason = reason;
  result_.detail = Detail(result_.reason);
  if (space_->keeps()) {
    RETURN_IF_ERROR(space_->Flush());
  }
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

std::vector<std::string> VectorsOf(const MinimizerState& state) {
  std::vector<std::string> vectors = {state.g()};
  if (!state.along().d().empty()) {
    vectors.push_back(state.along().d());
  }
  for (const CurvaturePair& pair : state.pair()) {
    vectors.push_back(pair.s());
    vectors.push_back(pair.y());
  }
  return vectors;
}

absl::StatusOr<MinimizerResult> Minimize(VectorSpace* space, Objective* objective,
                                         Direction* direction, const MinimizerOptions& options,
                                         OwnedVector start, const IterationObserver& observer) {
  RETURN_IF_ERROR(ValidateMinimizerOptions(options));
  return Driver(space, objective, direction, options, observer).Run(std::move(start));
}

absl::StatusOr<MinimizerResult> Continue(VectorSpace* space, Objective* objective,
                                         Direction* direction, const MinimizerOptions& options,
                                         const MinimizerState& state, OwnedVector w,
                                         const IterationObserver& observer) {
  RETURN_IF_ERROR(ValidateMinimizerOptions(options));
  return Driver(space, objective, direction, options, observer).Continue(state, std::move(w));
}

}  // namespace monsoon
