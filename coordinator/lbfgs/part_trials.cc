#include "coordinator/lbfgs/part_trials.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace monsoon {
namespace {

// Scales whose exponents differ by less are not worth new variables.
constexpr int kSameScale = 8;
// With more parts their pairs would take too many evaluations.
constexpr size_t kPartsOfPairs = 12;
// Of deep models, which have so many, each part goes on to fall a little for long: less than this
// of F is not worth giving up the history.
constexpr double kWorthOfMany = 1e-4;
// Two parts of which one does less than this of what the other does are told apart.
constexpr double kAlike = 0.9;
// 1 less the square of their correlation. Below the first, a search of their difference is worth
// it; below the second float32 can hardly tell them apart, as a feature from the bias whose mean is
// some thousands of its deviation.
constexpr double kWorthSearching = 1e-2;
constexpr double kNearlyOne = 1e-7;
// So far along F has changed by this part of it, unless the two are one, which does no harm.
constexpr double kFar[] = {1e2, 1e4, 1e6};
constexpr double kChange = 1e-2;

}  // namespace

absl::StatusOr<OwnedVector> PartTrials::LookFarther(const Point& at) {
  Point twice{.w = OwnedVector::New(space_, "w"), .g = OwnedVector::New(space_, "g")};
  RETURN_IF_ERROR(space_->Axpy(twice.w.name(), 1.0, at.w.name(), at.w.name()));
  ASSIGN_OR_RETURN(const ObjectiveValue value, searches_->Evaluate(twice, ""));
  falls_farther_ = at.w_dot_w > 0.0 && value.finite &&
                   (progress_->Falls(value.f) ||
                    (value.f <= at.f && progress_->IsBelow(at.f, Progress::kNegligible)));
  if (value.finite && std::isfinite(value.g_dot_g) && value.g_dot_g > 0.0) {
    return std::move(twice.g);
  }
  OwnedVector here = OwnedVector::New(space_, "g");
  RETURN_IF_ERROR(space_->Copy(here.name(), at.g.name()));
  return here;
}

absl::StatusOr<bool> PartTrials::FallsFarther(const Point& at) {
  if (!falls_farther_.has_value()) {
    RETURN_IF_ERROR(LookFarther(at).status());
  }
  return *falls_farther_;
}

absl::StatusOr<bool> PartTrials::Run(Point* at) {
  const SearchFigures before = searches_->figures();
  Trial trial{.at = at};
  ASSIGN_OR_RETURN(trial.by, LookFarther(*at));
  ASSIGN_OR_RETURN(trial.parts, variables_->FindParts(trial.by.name()));
  trial.steps.resize(trial.parts.size());
  RETURN_IF_ERROR(TryEach(&trial));
  const bool many = trial.parts.size() > kPartsOfPairs;
  if (!many) {
    RETURN_IF_ERROR(TryPairs(&trial));
  }
  searches_->ForgetFailure(before);
  if (!trial.from.has_value()) {
    return false;
  }
  const bool rises = progress_->IsLower(trial.from->f, at->f);
  const bool worth = many ? trial.from->f - at->f > kWorthOfMany * std::abs(at->f)
                          : progress_->Falls(at->f) || (!rises && progress_->IsWorth(trial.fall));
  if (!worth) {
    *at = *std::move(trial.from);
    return false;
  }
  trial.from.reset();
  if (!many) {
    RETURN_IF_ERROR(Rescale(&trial));
  }
  return true;
}

absl::Status PartTrials::TryEach(Trial* trial) {
  for (size_t i = 0; i < trial->parts.size(); ++i) {
    ASSIGN_OR_RETURN(const std::optional<SearchDirection> along,
                     variables_->Along(trial->parts[i], trial->by.name(), *trial->at));
    if (!along.has_value()) {
      continue;
    }
    ASSIGN_OR_RETURN(Found found, searches_->Search(*trial->at, *along));
    trial->steps[i] = found.quadratic_step;
    if (found.point.has_value()) {
      trial->MoveTo(std::move(found));
    }
  }
  return absl::OkStatus();
}

absl::Status PartTrials::TryPairs(Trial* trial) {
  for (size_t i = 0; i < trial->parts.size(); ++i) {
    if (!trial->steps[i].has_value()) {
      continue;
    }
    ASSIGN_OR_RETURN(std::optional<OwnedVector> x,
                     variables_->UnitOf(trial->parts[i], *trial->steps[i], trial->by.name()));
    for (size_t j = i + 1; x.has_value() && j < trial->parts.size(); ++j) {
      // Of one tensor they may be the classes of a softmax, which only l2 tells apart.
      if (!trial->steps[j].has_value() || trial->parts[i].begin == trial->parts[j].begin) {
        continue;
      }
      ASSIGN_OR_RETURN(std::optional<OwnedVector> y,
                       variables_->UnitOf(trial->parts[j], *trial->steps[j], trial->by.name()));
      if (y.has_value()) {
        RETURN_IF_ERROR(TryPair(x->name(), y->name(), trial));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status PartTrials::TryPair(const std::string& x, const std::string& y, Trial* trial) {
  ASSIGN_OR_RETURN(const auto along_x, Curvatures(*trial->at, x, {x, y}));
  if (!along_x.has_value()) {
    return absl::OkStatus();
  }
  const double xx = (*along_x)[0], xy = (*along_x)[1];
  // Both about 1; what two parts share is xy.
  if (!(xx > 0.0) || !(std::abs(xy) >= kAlike * xx)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto along_y, Curvatures(*trial->at, y, {y, x}));
  if (!along_y.has_value() || !((*along_y)[0] > 0.0)) {
    return absl::OkStatus();
  }
  const double yy = (*along_y)[0];
  const double apart = 1.0 - xy * (*along_y)[1] / (xx * yy);
  if (apart > kWorthSearching) {
    return absl::OkStatus();
  }
  // x, less what y does of it.
  SearchDirection along{.d = OwnedVector::New(space_, "d"), .fresh = true};
  ASSIGN_OR_RETURN(
      const std::vector<double> slope,
      space_->Combine(along.d.name(), {{1.0, x}, {-xy / yy, y}}, {trial->at->g.name()}));
  if (apart <= kNearlyOne && !collinear_) {
    ASSIGN_OR_RETURN(collinear_, ChangesFar(*trial->at, along.d.name()));
  }
  if (slope[0] > 0.0) {
    OwnedVector back = OwnedVector::New(space_, "d");
    RETURN_IF_ERROR(space_->Scale(back.name(), -1.0, along.d.name()));
    along.d = std::move(back);
  }
  along.g_dot_d = -std::abs(slope[0]);
  if (!Descends(along)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Found found, searches_->Search(*trial->at, along));
  if (found.point.has_value() && progress_->IsLower(found.point->f, trial->at->f)) {
    trial->MoveTo(std::move(found));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::vector<double>>> PartTrials::Curvatures(
    const Point& at, const std::string& along, const std::vector<std::string>& with) {
  Point there{.w = OwnedVector::New(space_, "w"), .g = OwnedVector::New(space_, "g")};
  RETURN_IF_ERROR(space_->Axpy(there.w.name(), 1.0, along, at.w.name()));
  ASSIGN_OR_RETURN(const ObjectiveValue value, searches_->Evaluate(there, ""));
  if (!value.finite) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const std::vector<double> dots,
                   space_->Gram({there.g.name(), at.g.name()}, with));
  std::vector<double> curvatures;
  for (size_t i = 0; i < with.size(); ++i) {
    curvatures.push_back(dots[i] - dots[with.size() + i]);
  }
  return curvatures;
}

absl::StatusOr<bool> PartTrials::ChangesFar(const Point& at, const std::string& along) {
  for (const double step : kFar) {
    Point far{.w = OwnedVector::New(space_, "w"), .g = OwnedVector::New(space_, "g")};
    RETURN_IF_ERROR(space_->Axpy(far.w.name(), step, along, at.w.name()));
    ASSIGN_OR_RETURN(const ObjectiveValue value, searches_->Evaluate(far, ""));
    if (!value.finite || std::abs(value.f - at.f) > kChange * std::abs(at.f)) {
      return true;
    }
  }
  return false;
}

absl::Status PartTrials::Rescale(Trial* trial) {
  std::vector<int> exponents(trial->parts.size(), 0);
  std::optional<int> least;
  int most = 0;
  for (size_t i = 0; i < exponents.size(); ++i) {
    if (trial->steps[i].has_value()) {
      exponents[i] = ScaleExponent(*trial->steps[i]);
      most = least.has_value() ? std::max(most, exponents[i]) : exponents[i];
      least = std::min(least.value_or(exponents[i]), exponents[i]);
    }
  }
  if (!least.has_value() || most - *least < kSameScale || !variables_->may_rescale()) {
    return absl::OkStatus();
  }
  return variables_->Rescale(trial->parts, trial->by.name(), exponents, trial->at);
}

}  // namespace monsoon
