// Adagrad (Duchi et al. 2011, used by Dean et al. 2012):
//   h += g * g; w -= rate(k) * g / (sqrt(h) + epsilon).
// The state is h. The first step is defined: with h = 0 before, it moves each
// parameter by rate * |g| / (|g| + epsilon).
#pragma once

#include "common/optimizer/gradient_transform.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"

namespace monsoon {

inline constexpr double kDefaultAdagradEpsilon = 1e-8;

class AdagradKernel : public OptimizerKernel {
 public:
  // epsilon is positive in float32.
  AdagradKernel(RateSchedule rate, GradientTransform transform, float epsilon,
                float initial_accumulator)
      : rate_(std::move(rate)),
        transform_(transform),
        epsilon_(epsilon),
        initial_accumulator_(initial_accumulator) {}
  int state_slots() const override { return 1; }
  float initial_state() const override { return initial_accumulator_; }
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
  const float epsilon_;
  const float initial_accumulator_;
};

}  // namespace monsoon
