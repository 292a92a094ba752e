#include "coordinator/lbfgs/line_searches.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/lbfgs/line_search.h"
#include "coordinator/lbfgs/noise.h"

namespace monsoon {
namespace {

// The noise of F is measured at steps of this part of the first one: far apart for
// float32, close enough to be smooth.
constexpr double kNoiseStep = 1e-2;
// Iterations between two measurements.
constexpr uint32_t kNoiseEvery = 4;

}  // namespace

bool Descends(const SearchDirection& along) {
  return std::isfinite(along.g_dot_d) && along.g_dot_d < 0.0 && std::isfinite(along.first_step) &&
         along.first_step > 0.0;
}

absl::StatusOr<ObjectiveValue> LineSearches::Evaluate(const Point& point,
                                                      const std::string& along) {
  ASSIGN_OR_RETURN(ObjectiveValue value,
                   objective_->Evaluate(point.w.name(), point.g.name(), along));
  ++figures_.evaluations;
  return value;
}

absl::StatusOr<ObjectiveValue> LineSearches::EvaluateAt(const Point& at,
                                                        const SearchDirection& along, double step,
                                                        Point* trial) {
  trial->w = OwnedVector::New(space_, "w");
  trial->g = OwnedVector::New(space_, "g");
  RETURN_IF_ERROR(space_->Axpy(trial->w.name(), step, along.d.name(), at.w.name()));
  return Evaluate(*trial, along.d.name());
}

absl::StatusOr<Found> LineSearches::Search(const Point& at, const SearchDirection& along) {
  LineSearchOptions options = options_;
  options.f_floor = progress_->f_floor();
  MoreThuenteSearch search(options, at.f, along.g_dot_d, along.first_step);
  MoreThuenteSearch::Verdict verdict = MoreThuenteSearch::Verdict::kEvaluate;
  double smallest = HUGE_VAL;
  std::optional<double> quadratic_step;
  while (verdict == MoreThuenteSearch::Verdict::kEvaluate) {
    const double step = search.step();
    Point trial;
    ASSIGN_OR_RETURN(const ObjectiveValue value, EvaluateAt(at, along, step, &trial));
    // g . g may overflow where f does not.
    const bool finite = value.finite && std::isfinite(value.g_dot_g);
    trial.f = finite ? value.f : HUGE_VAL;
    trial.g_dot_g = value.g_dot_g;
    trial.w_dot_w = value.w_dot_w;
    trial.gradient_norm = std::sqrt(value.unscaled_g_dot_g.value_or(value.g_dot_g));
    if (finite && value.g_dot_d > along.g_dot_d && step < smallest) {
      smallest = step;
      quadratic_step = -along.g_dot_d * step / (value.g_dot_d - along.g_dot_d);
    }
    verdict = search.Report(trial.f, finite ? value.g_dot_d : HUGE_VAL);
    if (verdict == MoreThuenteSearch::Verdict::kAccepted) {
      return Found{.point = std::move(trial),
                   .step = step,
                   .fall = -0.5 * step * (along.g_dot_d + value.g_dot_d),
                   .quadratic_step = quadratic_step};
    }
  }
  figures_.failure =
      absl::StrCat(search.failure(), " (iteration ", iteration_ + 1, ", ", search.evaluations(),
                   " evaluations, last step ", search.step(), ")");
  return Found{.at_floor = search.at_floor(), .quadratic_step = quadratic_step};
}

absl::StatusOr<bool> LineSearches::MeasureNoise(const Point& at, const SearchDirection& along) {
  constexpr int kMiddle = kNoisePoints / 2;
  std::vector<double> values;
  for (int i = 0; i < kNoisePoints; ++i) {
    if (i == kMiddle) {
      values.push_back(at.f);
      continue;
    }
    Point trial;
    ASSIGN_OR_RETURN(const ObjectiveValue value,
                     EvaluateAt(at, along, (i - kMiddle) * kNoiseStep * along.first_step, &trial));
    if (!value.finite) {
      return false;
    }
    values.push_back(value.f);
  }
  ++figures_.noise_measurements;
  const double before = progress_->f_floor();
  // Values too close to differ tell nothing: what was known stands.
  if (const std::optional<double> noise = EstimateNoise(values)) {
    progress_->NoteNoise(*noise);
  }
  return progress_->f_floor() != before;
}

absl::StatusOr<Found> LineSearches::SearchAboveNoise(const Point& at,
                                                     const SearchDirection& along) {
  ASSIGN_OR_RETURN(Found found, Search(at, along));
  if (found.point.has_value() ||
      (figures_.measured.has_value() && iteration_ < *figures_.measured + kNoiseEvery)) {
    return found;
  }
  figures_.measured = iteration_;
  ASSIGN_OR_RETURN(const bool other_floor, MeasureNoise(at, along));
  return other_floor ? Search(at, along) : std::move(found);
}

absl::StatusOr<Found> LineSearches::SearchWithRestart(const Point& at, SearchDirection* along) {
  bool at_floor = false;
  if (Descends(*along)) {
    ASSIGN_OR_RETURN(Found found, SearchAboveNoise(at, *along));
    if (found.point.has_value() || along->fresh) {
      return found;
    }
    at_floor = found.at_floor;
  }
  ++figures_.restarts;
  direction_->Reset();
  ASSIGN_OR_RETURN(*along, direction_->Next(std::nullopt, at));
  ASSIGN_OR_RETURN(Found found, SearchAboveNoise(at, *along));
  found.at_floor |= at_floor;
  return found;
}

}  // namespace monsoon
