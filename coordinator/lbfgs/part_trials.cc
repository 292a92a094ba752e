#include "coordinator/lbfgs/part_trials.h"

#include <algorithm>
#include <cmath>
#include <iterator>
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
// Two parts of which one does less than this of what the other does are told apart. Their lengths
// are good to a factor.
constexpr double kMayBeAlike = 0.5;
// 1 less the square of their correlation. Below the first, a search of their difference is worth
// it; below the second float32 can hardly tell them apart, since gradients tell it to about that: a
// feature from the bias whose mean is some hundreds of its deviation.
constexpr double kWorthSearching = 1e-2;
constexpr double kNearlyOne = 1e-5;
// So far along F has changed by this part of it, unless the two are one, which does no harm.
constexpr double kFar[] = {1e2, 1e4, 1e6};
constexpr double kChange = 1e-2;
// Steps towards the minimum of one of them.
constexpr int kCorrections = 10;

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
    for (size_t j = i + 1; trial->steps[i].has_value() && j < trial->parts.size(); ++j) {
      // Of one tensor they may be the classes of a softmax, which only l2 tells apart.
      if (trial->steps[j].has_value() && trial->parts[i].begin != trial->parts[j].begin) {
        RETURN_IF_ERROR(TryPair(i, j, trial));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PartTrials::Pair>> PartTrials::MakePair(const Trial& trial, size_t i,
                                                                     size_t j,
                                                                     const std::string& from) {
  Pair pair{.tensor = {trial.parts[j].begin, trial.parts[j].end}, .step = *trial.steps[j]};
  ASSIGN_OR_RETURN(std::optional<OwnedVector> x,
                   variables_->UnitOf(trial.parts[i], *trial.steps[i], trial.by.name(), from));
  ASSIGN_OR_RETURN(std::optional<OwnedVector> y,
                   variables_->UnitOf(trial.parts[j], *trial.steps[j], trial.by.name(), from));
  if (!x.has_value() || !y.has_value()) {
    return std::nullopt;
  }
  pair.x = *std::move(x);
  pair.y = *std::move(y);
  ASSIGN_OR_RETURN(const auto along_x,
                   Curvatures(*trial.at, pair.x.name(), {pair.x.name(), pair.y.name()}));
  if (!along_x.has_value()) {
    return std::nullopt;
  }
  const double xx = (*along_x)[0], xy = (*along_x)[1];
  // Both are about 1 long, as a step along each of them has told; what two parts share is xy.
  if (!(xx > 0.0) || !(std::abs(xy) >= kMayBeAlike * xx)) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const auto along_y,
                   Curvatures(*trial.at, pair.y.name(), {pair.y.name(), pair.x.name()}));
  if (!along_y.has_value() || !((*along_y)[0] > 0.0)) {
    return std::nullopt;
  }
  const double yy = (*along_y)[0], yx = (*along_y)[1];
  pair.apart = 1.0 - xy * yx / (xx * yy);
  // By curvatures of one place, since F is no quadratic.
  pair.share = yx / yy;
  return pair.apart > kWorthSearching ? std::nullopt : std::optional(std::move(pair));
}

absl::Status PartTrials::TryPair(size_t i, size_t j, Trial* trial) {
  ASSIGN_OR_RETURN(std::optional<Pair> pair, MakePair(*trial, i, j, trial->by.name()));
  if (!pair.has_value()) {
    return absl::OkStatus();
  }
  // Where one of them has moved, gradients are large, and the directions of both parts those in
  // which they do the same, which here what is left of other gradients may hide.
  Point moved{.w = OwnedVector::New(space_, "w"), .g = OwnedVector::New(space_, "g")};
  RETURN_IF_ERROR(space_->Axpy(moved.w.name(), 1.0, pair->y.name(), trial->at->w.name()));
  ASSIGN_OR_RETURN(const ObjectiveValue value, searches_->Evaluate(moved, ""));
  pair.reset();
  if (value.finite) {
    ASSIGN_OR_RETURN(pair, MakePair(*trial, i, j, moved.g.name()));
  }
  return pair.has_value() ? TryDifference(*pair, trial) : absl::OkStatus();
}

absl::Status PartTrials::TryDifference(const Pair& pair, Trial* trial) {
  SearchDirection along{.d = OwnedVector::New(space_, "d"), .fresh = true};
  ASSIGN_OR_RETURN(
      const std::vector<double> slope,
      space_->Combine(along.d.name(), {{1.0, pair.x.name()}, {-pair.share, pair.y.name()}},
                      {trial->at->g.name()}));
  if (pair.apart <= kNearlyOne && !collinear_) {
    ASSIGN_OR_RETURN(collinear_, ChangesFar(*trial->at, along.d.name(), pair));
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

absl::StatusOr<bool> PartTrials::ChangesFar(const Point& at, const std::string& along,
                                            const Pair& pair) {
  bool changes = false;
  for (size_t i = 0; i < std::size(kFar) && !changes; ++i) {
    OwnedVector w = OwnedVector::New(space_, "w");
    RETURN_IF_ERROR(space_->Axpy(w.name(), kFar[i], along, at.w.name()));
    for (int correction = 0; correction <= kCorrections; ++correction) {
      Point far{.w = std::move(w), .g = OwnedVector::New(space_, "g")};
      ASSIGN_OR_RETURN(const ObjectiveValue value, searches_->Evaluate(far, ""));
      changes = !value.finite || std::abs(value.f - at.f) > kChange * std::abs(at.f);
      if (!changes || !value.finite) {
        break;
      }
      // What of y's tensor is too much so far along: rounding, and no difference of the two.
      const OwnedVector back = OwnedVector::New(space_, "p");
      RETURN_IF_ERROR(space_->Select(back.name(), far.g.name(), pair.tensor, far.g.name()));
      w = OwnedVector::New(space_, "w");
      RETURN_IF_ERROR(space_->Axpy(w.name(), -pair.step, back.name(), far.w.name()));
    }
  }
  return changes;
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
