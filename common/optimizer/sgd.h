// Stochastic gradient descent: w -= rate(k) * g.
#pragma once

#include "common/optimizer/gradient_transform.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"

namespace monsoon {

class SgdKernel : public OptimizerKernel {
 public:
  SgdKernel(RateSchedule rate, GradientTransform transform)
      : rate_(std::move(rate)), transform_(transform) {}
  int state_slots() const override { return 0; }
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
};

}  // namespace monsoon
