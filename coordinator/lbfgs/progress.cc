#include "coordinator/lbfgs/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace monsoon {
namespace {

// Promises relative to F that mean convergence: kWindow in a row, or kFew in a row
// where they fall fast. On softmax problems of condition up to 10^12 the first left F
// at most 5e-8 (relative) above the minimum.
constexpr double kSmallPromise = 1e-10;
constexpr double kTinyPromise = 1e-13;
constexpr size_t kFew = 3;
// Meanwhile F must not have fallen by more than this, or than its noise.
constexpr double kSmallChange = 1e-7;
// Of a run that cannot go on: what is left is too little for float32. Measured: below
// 1e-6 of F; at promises of 1e-8 it was up to 4e-4.
constexpr double kFloatPromise = 1e-9;
// Noise times this is a change of F; more than the largest floor would let the line
// search take steps uphill.
constexpr double kChangeInNoise = 10.0;
constexpr double kLargestFloor = 1e-4;
// Becoming better: half of |g|, or of the promise.
constexpr double kBetter = 0.5;

template <typename T>
void Push(T value, size_t most, std::deque<T>* newest) {
  newest->push_back(value);
  if (newest->size() > most) {
    newest->pop_front();
  }
}

}  // namespace

double Progress::scale() const {
  return std::max(std::abs(f_.back()), kNegligible * std::abs(first_f_));
}

void Progress::AddPoint(double f, double gradient_norm, double w_norm) {
  gradient_norm_ = gradient_norm;
  w_norm_ = w_norm;
  Push(f, kWindow + 1, &f_);
  if (f_.size() == 1) {
    first_f_ = best_f_ = f;
    first_gradient_ = best_gradient_ = gradient_norm;
    return;
  }
  ++idle_;
  if (f < best_f_ - floor_ * scale()) {
    best_f_ = f;
    idle_ = 0;
  }
  if (gradient_norm <= kBetter * best_gradient_) {
    best_gradient_ = gradient_norm;
    idle_ = 0;
  }
}

void Progress::AddPromise(std::optional<double> decrease) {
  if (!decrease.has_value() || !std::isfinite(*decrease)) {
    return;
  }
  Push(std::abs(*decrease), kWindow, &promises_);
  if (!best_promise_.has_value() || promises_.back() <= kBetter * *best_promise_) {
    best_promise_ = promises_.back();
    idle_ = 0;
  }
}

void Progress::NoteNoise(double noise) {
  noise_ = scale() > 0.0 ? noise / scale() : 0.0;
  floor_ = std::max(roundoff_floor_, std::min(kChangeInNoise * *noise_, kLargestFloor));
}

std::optional<double> Progress::Largest(size_t count) const {
  if (promises_.size() < count || count == 0 || scale() == 0.0) {
    return std::nullopt;
  }
  return *std::max_element(promises_.end() - static_cast<ptrdiff_t>(count), promises_.end()) /
         scale();
}

bool Progress::FellByAtMost(double relative) const {
  return f_.front() - f_.back() <= relative * scale();
}

bool Progress::IsWorth(double fall) const { return fall > kSmallChange * scale(); }

void Progress::BeginAnew() {
  f_.erase(f_.begin(), f_.end() - 1);
  promises_.clear();
  best_f_ = f_.back();
  best_gradient_ = gradient_norm_;
  best_promise_.reset();
  idle_ = 0;
}

bool Progress::within_tolerance() const {
  if (gradient_norm_ == 0.0 || gradient_norm_ <= tolerances_.gradient * std::max(1.0, w_norm_) ||
      gradient_norm_ <= tolerances_.relative_gradient * first_gradient_) {
    return true;
  }
  return tolerances_.f > 0.0 && f_.size() > kWindow && FellByAtMost(tolerances_.f);
}

bool Progress::converged() const {
  if (within_tolerance()) {
    return true;
  }
  const std::optional<double> few = Largest(kFew);
  const std::optional<double> many = Largest(kWindow);
  return (few.has_value() && *few <= kTinyPromise) ||
         (many.has_value() && *many <= kSmallPromise &&
          FellByAtMost(std::max(kSmallChange, floor_)));
}

bool Progress::at_float_precision() const {
  const std::optional<double> few = Largest(kFew);
  return few.has_value() && *few <= std::min(kFloatPromise, floor_);
}

bool Progress::below_noise() const {
  const std::optional<double> few = Largest(std::min(kFew, promises_.size()));
  return few.has_value() && *few <= kChangeInNoise * floor_;
}

ProgressState Progress::Save() const {
  ProgressState state;
  state.set_floor(floor_);
  if (noise_.has_value()) {
    state.set_noise(*noise_);
  }
  state.set_first_f(first_f_);
  state.set_first_gradient(first_gradient_);
  state.set_gradient_norm(gradient_norm_);
  state.set_w_norm(w_norm_);
  state.mutable_f()->Add(f_.begin(), f_.end());
  state.mutable_promise()->Add(promises_.begin(), promises_.end());
  state.set_best_f(best_f_);
  state.set_best_gradient(best_gradient_);
  if (best_promise_.has_value()) {
    state.set_best_promise(*best_promise_);
  }
  state.set_idle(idle_);
  return state;
}

void Progress::Restore(const ProgressState& state) {
  floor_ = state.floor();
  noise_ = state.has_noise() ? std::optional(state.noise()) : std::nullopt;
  first_f_ = state.first_f();
  first_gradient_ = state.first_gradient();
  gradient_norm_ = state.gradient_norm();
  w_norm_ = state.w_norm();
  f_.assign(state.f().begin(), state.f().end());
  promises_.assign(state.promise().begin(), state.promise().end());
  best_f_ = state.best_f();
  best_gradient_ = state.best_gradient();
  best_promise_ = state.has_best_promise() ? std::optional(state.best_promise()) : std::nullopt;
  idle_ = state.idle();
}

std::string Progress::Figures() const {
  std::string text = absl::StrFormat("F %.9g, |g| %.2e", f_.back(), gradient_norm_);
  if (noise_.has_value()) {
    absl::StrAppendFormat(&text, ", noise of F %.0e (relative)", *noise_);
  }
  if (const auto promise = Largest(std::min(kFew, promises_.size()))) {
    absl::StrAppendFormat(&text, ", the last directions promised up to %.1e of F", *promise);
  }
  return text;
}

}  // namespace monsoon
