// Average: an optimizer moves a point z of its own, and the parameters w that everybody
// sees lie between z and the average x of its path (Defazio et al. 2024, "The Road Less
// Scheduled", with any optimizer's step in the place of SGD's):
//   z <- z - s, with s the step of the optimizer inside at w;
//   x <- x + c(k) (z - x), with c(k) = (1 + power) / (k + 1 + power);
//   w <- (1 - share) z + share x.
// So gradients are taken, replicas start and models are tested near the average, and one
// push moves w by little more than (1 - share) s at once: what is stale, or noise, counts
// less. After push k the point that push j made has about the weight j^power in x.
//
// The state is that of the optimizer inside and behind it a slot d = z - w, which begins
// at 0 and tells z and x:
//   d' = (1 - c(k)) (d - share s);  w' = w - s + d - d'.
// Padding stays zero.
#pragma once

#include <memory>

#include "common/optimizer/optimizer.h"

namespace monsoon {

class AverageKernel : public OptimizerKernel {
 public:
  // `inner` has a state that begins at 0 and a free slot; share in (0, 1], power at least 0.
  AverageKernel(std::unique_ptr<OptimizerKernel> inner, double share, double power);

  int state_slots() const override { return inner_->state_slots() + 1; }
  void Apply(PushNumber k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override;
  void ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                    std::span<const float> g, std::span<float> moved, bool fresh) const override;

  // c(k), of the pushes that had a gradient.
  float WeightAt(uint64_t k) const;

 private:
  // `moved` is empty, or as in ApplyAndTell.
  void Run(PushNumber k, std::span<float> w, OptimizerState state, std::span<const float> g,
           std::span<float> moved, bool fresh) const;

  const std::unique_ptr<OptimizerKernel> inner_;
  const float share_;
  const double power_;
};

}  // namespace monsoon
