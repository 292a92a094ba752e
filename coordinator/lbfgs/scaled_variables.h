// ScaledVariables: parts of a model's vector, and variables that are the parameters divided by a
// power of two in each. A minimiser tries the parts one by one before it says that nothing is left
// to gain: where some values are larger than others by orders of magnitude, directions of the
// whole vector are those of the largest alone.
//
// A part is what of a tensor has gradients of about one size: those of features in metres and of
// features in micrometres are two parts of one weight. Scales are powers of two, so that changes
// of variables round nothing.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

// Floats [begin, end) of the whole vector.
struct TensorRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  // Its gradient is always zero.
  bool is_constant = false;
};

class ScaledVariables {
 public:
  // `space` outlives this. The variables are the parameters at first.
  ScaledVariables(VectorSpace* space, std::vector<TensorRange> tensors)
      : space_(space), tensors_(std::move(tensors)) {}

  // All parts, by the sizes of the elements of the vector `by`, a gradient. A few round trips a
  // tensor.
  absl::StatusOr<std::vector<Selection>> FindParts(const std::string& by);

  // -g in one part and 0 elsewhere, with the first step 1/|g|; nothing where g is zero there. One
  // round trip.
  absl::StatusOr<std::optional<SearchDirection>> Along(const Selection& part, const std::string& by,
                                                       const Point& at);

  // `from` in one part, as long as a curvature of 1 has it where `step` is the one to the minimum
  // along -g; nothing where it is zero there. Two round trips.
  absl::StatusOr<std::optional<OwnedVector>> UnitOf(const Selection& part, double step,
                                                    const std::string& by, const std::string& from);

  // Variables become 2^-exponent times what they are, one of `exponents` for each part; `at` is the
  // same point in them.
  absl::Status Rescale(std::span<const Selection> parts, const std::string& by,
                       std::span<const int> exponents, Point* at);

  // What the parameters are times the variables; "": the variables are the parameters.
  const std::string& scale() const { return scale_.name(); }
  bool scaled() const { return !scale_.name().empty(); }
  // So many are enough, and keep scales far from the ends of a float32.
  bool may_rescale() const { return rescalings_ < kMostRescalings; }

  void Save(MinimizerState* state) const;
  void Restore(const MinimizerState& state);

 private:
  static constexpr uint32_t kMostRescalings = 3;

  // out = sum over the parts of 2^(sign * exponent) times `in`; nothing is rounded.
  absl::StatusOr<OwnedVector> Multiplied(const std::string& in, std::span<const Selection> parts,
                                         const std::string& by, std::span<const int> exponents,
                                         int sign);

  VectorSpace* const space_;
  const std::vector<TensorRange> tensors_;
  OwnedVector scale_;
  uint32_t rescalings_ = 0;
};

// Of the scale that makes a curvature about 1, where `step` along -g is that to the minimum of a
// quadratic: the step is one over the curvature.
int ScaleExponent(double step);

}  // namespace monsoon
