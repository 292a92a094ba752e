// Momentum (Polyak 1964): v = momentum * v + g; w -= rate(k) * v. The state is
// v.
#pragma once

#include "common/optimizer/gradient_transform.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"

namespace monsoon {

class MomentumKernel : public OptimizerKernel {
 public:
  MomentumKernel(RateSchedule rate, GradientTransform transform, float momentum)
      : rate_(std::move(rate)), transform_(transform), momentum_(momentum) {}
  int state_slots() const override { return 1; }
  void Apply(uint64_t k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override;
  void ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
                    std::span<float> moved, bool fresh) const override;
  std::optional<OptimizerStep> StepAt(uint64_t k) const override;

 private:
  void Run(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
           MoveRecord record) const;

  const RateSchedule rate_;
  const GradientTransform transform_;
  const float momentum_;
};

}  // namespace monsoon
