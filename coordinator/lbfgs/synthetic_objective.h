// SyntheticObjective: a convex quadratic, for tests and measurements,
//
//   F(w) = 1/2 sum of a_i (w_i - b_i)^2 + l2/2 |w|^2,
//
// by vector operations alone, so that the shards compute it without workers or
// data, at any length of vector.
//
// Rounds: 2 to make a and b, then 3 per evaluation (5 with l2). Needs 3 vectors
// besides w and the gradient (4 with l2). Its minimiser is a_i b_i / (a_i + l2).
#pragma once

#include <string>

#include "coordinator/lbfgs/objective.h"
#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

class SyntheticObjective : public Objective {
 public:
  // Streams of VectorSpace::Uniform that a and b are drawn from.
  static constexpr uint32_t kCurvatureStream = 1;
  static constexpr uint32_t kCentreStream = 2;

  // Draws a in [1, condition), all 1 for condition 1, and b in [-1, 1) by `seed`. `space` must
  // outlive it. InvalidArgument when condition < 1 or l2 < 0.
  static absl::StatusOr<SyntheticObjective> Create(VectorSpace* space, uint64_t seed,
                                                   double condition, double l2);

  absl::StatusOr<ObjectiveValue> Evaluate(const std::string& w, const std::string& gradient_out,
                                          const std::string& along) override;

  const std::string& a() const { return a_.name(); }
  const std::string& b() const { return b_.name(); }

 private:
  SyntheticObjective(VectorSpace* space, double l2)
      : space_(space),
        l2_(l2),
        a_(OwnedVector::New(space, "a")),
        b_(OwnedVector::New(space, "b")) {}

  VectorSpace* space_;
  double l2_;
  OwnedVector a_;
  OwnedVector b_;
};

}  // namespace monsoon
