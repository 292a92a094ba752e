#include "coordinator/lbfgs/minimizer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/lbfgs/line_searches.h"
#include "coordinator/lbfgs/part_trials.h"
#include "coordinator/lbfgs/progress.h"
#include "coordinator/lbfgs/scaled_objective.h"
#include "coordinator/lbfgs/scaled_variables.h"

namespace monsoon {
namespace {

constexpr double kFloorInRoundoffs = 2.0;
// Of a run that has not converged: from this part of F at the start on, it may be that there is no
// minimum.
constexpr double kSmallPart = 1e-3;

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
                                          : options.line_search.f_floor),
        searches_(space, objective, direction, SearchOptions(options, *direction), &progress_),
        variables_(space, options.tensors),
        trials_(space, &progress_, &searches_, &variables_) {}

  absl::StatusOr<MinimizerResult> Run(OwnedVector start);
  absl::StatusOr<MinimizerResult> Continue(const MinimizerState& state, OwnedVector w);

 private:
  static LineSearchOptions SearchOptions(const MinimizerOptions& options,
                                         const Direction& direction) {
    LineSearchOptions search = options.line_search;
    search.c2 = direction.CurvatureConstant(search.c2);
    return search;
  }

  absl::Status EvaluateStart();
  // From the newest point, or from the report of it, with the direction that it had.
  absl::StatusOr<EndReason> Iterate(bool reported, std::optional<SearchDirection> along);
  // The newest point is another one: counts and publishes it.
  absl::Status Accept();
  // What cannot go on, or has converged by its promises, ends so, unless a part alone can: then
  // nothing, and the newest point is another one.
  absl::StatusOr<std::optional<EndReason>> EndUnlessParts(EndReason reason);
  absl::StatusOr<bool> HasNoMinimum(EndReason reason);
  absl::StatusOr<MinimizerResult> Finish(EndReason reason);
  // The parameters of the newest point; `owner` has them where variables are scaled.
  absl::StatusOr<std::string> Parameters(OwnedVector* owner);
  void GoOnScaled();
  MinimizerState Save(const std::optional<SearchDirection>& along) const;
  // Tells of the newest point and the direction from it; false when the observer wants no
  // more.
  absl::StatusOr<bool> Report(double step_length, const std::optional<SearchDirection>& along);
  EndReason StuckReason(bool at_floor) const;
  std::string Detail(EndReason reason) const;
  // Where the data may be what holds it up; else "".
  std::string StandardiseHint() const;

  VectorSpace* const space_;
  Objective* const objective_;  // of the parameters
  Direction* const direction_;
  const MinimizerOptions options_;
  const IterationObserver& observer_;

  Progress progress_;
  LineSearches searches_;
  ScaledVariables variables_;
  PartTrials trials_;
  std::optional<ScaledObjective> scaled_;  // of the variables, where they are scaled
  Point at_;
  uint32_t iterations_ = 0;
};

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
  const SearchFigures& figures = searches_.figures();
  state.set_iterations(iterations_);
  state.set_evaluations(figures.evaluations);
  state.set_restarts(figures.restarts);
  state.set_noise_measurements(figures.noise_measurements);
  state.set_line_search_failure(figures.failure);
  if (figures.measured.has_value()) {
    state.set_measured(*figures.measured);
  }
  state.set_round_trips(space_->round_trips());
  state.set_names(space_->names());
  variables_.Save(&state);
  state.set_collinear(trials_.collinear());
  if (variables_.scaled()) {
    state.set_point(at_.w.name());
  }
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
  return observer_({.iteration = iterations_,
                    .f = at_.f,
                    .gradient_norm = at_.gradient_norm,
                    .step_length = step_length,
                    .evaluations = searches_.figures().evaluations,
                    .round_trips = space_->round_trips(),
                    .w = variables_.scaled() ? std::string() : at_.w.name(),
                    .state = [&] { return Save(along); }});
}

absl::Status Driver::EvaluateStart() {
  at_.g = OwnedVector::New(space_, "g");
  ASSIGN_OR_RETURN(const ObjectiveValue value, searches_.Evaluate(at_, ""));
  at_.f = value.f;
  at_.g_dot_g = value.g_dot_g;
  at_.w_dot_w = value.w_dot_w;
  at_.gradient_norm = std::sqrt(value.g_dot_g);
  if (!value.finite || !std::isfinite(value.f) || !std::isfinite(at_.g_dot_g) ||
      !std::isfinite(at_.w_dot_w)) {
    return absl::FailedPreconditionError(
        "the loss or its gradient is not finite at the initial parameters; check the "
        "initialiser and the scale of the data");
  }
  progress_.AddPoint(at_.f, at_.gradient_norm, std::sqrt(at_.w_dot_w));
  return absl::OkStatus();
}

EndReason Driver::StuckReason(bool at_floor) const {
  if (progress_.at_float_precision()) {
    return EndReason::kFloatPrecision;
  }
  return at_floor || progress_.below_noise() ? EndReason::kStalled : EndReason::kLineSearchFailed;
}

absl::Status Driver::Accept() {
  ++iterations_;
  searches_.SetIteration(iterations_);
  trials_.ForgetPoint();
  progress_.AddPoint(at_.f, at_.gradient_norm, std::sqrt(at_.w_dot_w));
  OwnedVector owner;
  ASSIGN_OR_RETURN(const std::string w, Parameters(&owner));
  return space_->Publish(w);
}

absl::StatusOr<std::string> Driver::Parameters(OwnedVector* owner) {
  if (!variables_.scaled()) {
    return at_.w.name();
  }
  *owner = OwnedVector::New(space_, "w");
  RETURN_IF_ERROR(space_->Multiply(owner->name(), variables_.scale(), at_.w.name()));
  return owner->name();
}

void Driver::GoOnScaled() {
  if (variables_.scaled()) {
    scaled_.emplace(space_, objective_, variables_.scale());
    searches_.SetObjective(&*scaled_);
  }
}

absl::StatusOr<std::optional<EndReason>> Driver::EndUnlessParts(EndReason reason) {
  if (options_.tensors.empty()) {
    return reason;
  }
  if (iterations_ >= options_.max_iterations) {
    return EndReason::kMaxIterations;
  }
  direction_->Reset();
  ASSIGN_OR_RETURN(const bool fell, trials_.Run(&at_));
  if (!fell) {
    // An l2 tells two parts apart that the data do not.
    const bool claims = reason == EndReason::kConverged || reason == EndReason::kFloatPrecision;
    return claims && options_.may_be_unbounded && trials_.collinear() ? EndReason::kStalled
                                                                      : reason;
  }
  GoOnScaled();
  RETURN_IF_ERROR(Accept());
  progress_.BeginAnew();
  return std::nullopt;
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
    if (progress_.within_tolerance()) {
      return EndReason::kConverged;
    }
    std::optional<EndReason> end;
    if (!goes_on) {
      return progress_.converged() ? EndReason::kConverged : EndReason::kTargetReached;
    }
    if (progress_.converged()) {
      end = EndReason::kConverged;
    } else if (progress_.stalled()) {
      end = StuckReason(/*at_floor=*/true);
    } else if (iterations_ >= options_.max_iterations) {
      return EndReason::kMaxIterations;
    } else {
      ASSIGN_OR_RETURN(Found found, searches_.SearchWithRestart(at_, &*along));
      if (found.point.has_value()) {
        step = found.step;
        move = Move{std::exchange(at_, *std::move(found.point)), *std::move(along), step};
        RETURN_IF_ERROR(Accept());
        continue;
      }
      end = StuckReason(found.at_floor);
    }
    along.reset();
    ASSIGN_OR_RETURN(end, EndUnlessParts(*end));
    if (end.has_value()) {
      return *end;
    }
    step = 0.0;  // of several directions, there is none
  }
}

absl::StatusOr<bool> Driver::HasNoMinimum(EndReason reason) {
  if (!options_.may_be_unbounded || reason == EndReason::kTargetReached ||
      std::ranges::any_of(options_.tensors, &TensorRange::is_constant)) {
    return false;  // with constants twice as large, F is another function
  }
  const bool ended = reason == EndReason::kConverged || reason == EndReason::kFloatPrecision;
  if (!ended && !progress_.IsBelow(at_.f, kSmallPart)) {
    return false;
  }
  return trials_.FallsFarther(at_);
}

std::string Driver::StandardiseHint() const {
  return variables_.scaled() || trials_.collinear()
             ? "; features that differ in scale or lie far from 0 hold it up: standardise: true of "
               "the job"
             : "";
}

std::string Driver::Detail(EndReason reason) const {
  std::string text = progress_.Figures();
  switch (reason) {
    case EndReason::kStalled:
      absl::StrAppend(&text,
                      "; the minimum was not reached: rounding hides what is left to gain: "
                      "standardise the features (standardise: true of the job), or raise l2");
      break;
    case EndReason::kLineSearchFailed:
      absl::StrAppend(&text, "; the minimum was not reached, and no step lowers F: ",
                      searches_.figures().failure, StandardiseHint());
      break;
    case EndReason::kMaxIterations:
      absl::StrAppend(&text, "; raise max_iterations to go on", StandardiseHint());
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
  if (state.g().empty() || state.point().empty() != state.scale().empty() ||
      state.has_along() != (state.g_dot_g() > 0.0) || state.progress().f().empty()) {
    return absl::InvalidArgumentError("no state of a minimiser: it has no gradient or direction");
  }
  at_.w = state.point().empty() ? std::move(w) : OwnedVector(space_, state.point());
  at_.g = OwnedVector(space_, state.g());
  at_.f = state.f();
  at_.g_dot_g = state.g_dot_g();
  at_.w_dot_w = state.w_dot_w();
  RETURN_IF_ERROR(direction_->Restore(state));
  progress_.Restore(state.progress());
  at_.gradient_norm = progress_.gradient_norm();
  variables_.Restore(state);
  trials_.Restore(state.collinear());
  GoOnScaled();
  iterations_ = state.iterations();
  searches_.SetIteration(iterations_);
  SearchFigures figures{.evaluations = state.evaluations(),
                        .restarts = state.restarts(),
                        .noise_measurements = state.noise_measurements(),
                        .failure = state.line_search_failure()};
  if (state.has_measured()) {
    figures.measured = state.measured();
  }
  searches_.Restore(std::move(figures));
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
  MinimizerResult result;
  result.reason = reason;
  result.detail = Detail(reason);
  ASSIGN_OR_RETURN(const bool has_no_minimum, HasNoMinimum(reason));
  if (has_no_minimum) {
    absl::StrAppend(&result.detail,
                    "; there is no minimum: F goes on to fall as the parameters grow, since they "
                    "separate the data. With an l2 there is one");
  }
  OwnedVector owner;  // where it is empty, the newest point has the parameters
  RETURN_IF_ERROR(Parameters(&owner).status());
  if (space_->keeps()) {
    RETURN_IF_ERROR(space_->Flush());
  }
  direction_->Reset();
  const SearchFigures& figures = searches_.figures();
  result.w = owner.name().empty() ? std::move(at_.w) : std::move(owner);
  result.f = at_.f;
  result.gradient_norm = at_.gradient_norm;
  result.iterations = iterations_;
  result.evaluations = figures.evaluations;
  result.restarts = figures.restarts;
  result.round_trips = space_->round_trips();
  result.noise_measurements = figures.noise_measurements;
  result.line_search_failure = figures.failure;
  return result;
}

}  // namespace

std::vector<std::string> VectorsOf(const MinimizerState& state) {
  std::vector<std::string> vectors = {state.g()};
  if (!state.scale().empty()) {
    vectors.push_back(state.scale());
    vectors.push_back(state.point());
  }
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
