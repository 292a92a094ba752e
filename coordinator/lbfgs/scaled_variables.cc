#include "coordinator/lbfgs/scaled_variables.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace monsoon {
namespace {

// A part's gradients are within this factor of its largest: what is due to the data's accidents
// stays together, other units do not.
constexpr double kWidth = 16.0;
// Of a tensor; the last one has whatever is smaller.
constexpr size_t kMostParts = 12;
// At most 2^this times as large or small at once.
constexpr double kMostExponent = 40.0;

}  // namespace

int ScaleExponent(double step) {
  return static_cast<int>(
      std::clamp(std::round(0.5 * std::log2(step)), -kMostExponent, kMostExponent));
}

absl::StatusOr<std::vector<Selection>> ScaledVariables::FindParts(const std::string& by) {
  std::vector<Selection> parts;
  for (const TensorRange& tensor : tensors_) {
    Selection rest{tensor.begin, tensor.end};
    for (size_t count = 1; count < kMostParts; ++count) {
      const OwnedVector left = OwnedVector::New(space_, "p");
      RETURN_IF_ERROR(space_->Select(left.name(), by, rest, by));
      ASSIGN_OR_RETURN(const double squares, space_->Dot(left.name(), left.name()));
      const double low = std::sqrt(squares) / kWidth;
      if (!std::isfinite(low) || low == 0.0) {
        break;
      }
      parts.push_back({rest.begin, rest.end, low, rest.high});
      rest.high = low;
    }
    parts.push_back(rest);
  }
  return parts;
}

absl::StatusOr<std::optional<SearchDirection>> ScaledVariables::Along(const Selection& part,
                                                                      const std::string& by,
                                                                      const Point& at) {
  const OwnedVector own = OwnedVector::New(space_, "p");
  RETURN_IF_ERROR(space_->Select(own.name(), at.g.name(), part, by));
  SearchDirection along{.d = OwnedVector::New(space_, "d"), .fresh = true};
  ASSIGN_OR_RETURN(const std::vector<double> dots,
                   space_->Combine(along.d.name(), {{-1.0, own.name()}}, {at.g.name()}));
  along.g_dot_d = dots[0];
  if (!std::isfinite(along.g_dot_d) || along.g_dot_d >= 0.0) {
    return std::nullopt;
  }
  along.first_step = 1.0 / std::sqrt(-along.g_dot_d);
  return std::optional(std::move(along));
}

absl::StatusOr<std::optional<OwnedVector>> ScaledVariables::UnitOf(const Selection& part,
                                                                   double step,
                                                                   const std::string& by,
                                                                   const std::string& from) {
  const OwnedVector own = OwnedVector::New(space_, "p");
  RETURN_IF_ERROR(space_->Select(own.name(), from, part, by));
  ASSIGN_OR_RETURN(const double squares, space_->Dot(own.name(), own.name()));
  const double factor = std::sqrt(step / squares);
  if (!std::isfinite(factor)) {
    return std::nullopt;
  }
  OwnedVector unit = OwnedVector::New(space_, "u");
  RETURN_IF_ERROR(space_->Scale(unit.name(), factor, own.name()));
  return std::optional(std::move(unit));
}

absl::StatusOr<OwnedVector> ScaledVariables::Multiplied(const std::string& in,
                                                        std::span<const Selection> parts,
                                                        const std::string& by,
                                                        std::span<const int> exponents, int sign) {
  OwnedVector sum = OwnedVector::New(space_, "f");
  RETURN_IF_ERROR(space_->Fill(sum.name(), 0.0));
  for (size_t i = 0; i < parts.size(); ++i) {
    const OwnedVector own = OwnedVector::New(space_, "p");
    OwnedVector next = OwnedVector::New(space_, "f");
    RETURN_IF_ERROR(space_->Select(own.name(), in, parts[i], by));
    RETURN_IF_ERROR(
        space_->Axpy(next.name(), std::ldexp(1.0, sign * exponents[i]), own.name(), sum.name()));
    sum = std::move(next);
  }
  return sum;
}

absl::Status ScaledVariables::Rescale(std::span<const Selection> parts, const std::string& by,
                                      std::span<const int> exponents, Point* at) {
  if (!scaled()) {
    scale_ = OwnedVector::New(space_, "f");
    RETURN_IF_ERROR(space_->Fill(scale_.name(), 1.0));
  }
  ASSIGN_OR_RETURN(scale_, Multiplied(scale_.name(), parts, by, exponents, 1));
  ASSIGN_OR_RETURN(at->w, Multiplied(at->w.name(), parts, by, exponents, -1));
  ASSIGN_OR_RETURN(at->g, Multiplied(at->g.name(), parts, by, exponents, 1));
  ASSIGN_OR_RETURN(at->g_dot_g, space_->Dot(at->g.name(), at->g.name()));
  ++rescalings_;
  return absl::OkStatus();
}

void ScaledVariables::Save(MinimizerState* state) const {
  state->set_scale(scale_.name());
  state->set_scalings(rescalings_);
}

void ScaledVariables::Restore(const MinimizerState& state) {
  if (!state.scale().empty()) {
    scale_ = OwnedVector(space_, state.scale());
  }
  rescalings_ = state.scalings();
}

}  // namespace monsoon
