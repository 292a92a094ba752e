// RMSProp (Tieleman and Hinton 2012):
//   v = alpha * v + (1 - alpha) * g * g; d = g / (sqrt(v) + epsilon); w -= rate(k) * d,
// or with momentum b = momentum * b + d; w -= rate(k) * b. The state is v, and b where
// there is momentum.
#pragma once

#include "common/optimizer/gradient_transform.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"

namespace monsoon {

inline constexpr double kDefaultRmsPropAlpha = 0.99;
inline constexpr double kDefaultRmsPropEpsilon = 1e-8;

class RmsPropKernel : public OptimizerKernel {
 public:
  struct Settings {
    double alpha = kDefaultRmsPropAlpha;  // in [0, 1), in float32 too
    float epsilon = 0.0f;                 // positive in float32
    float momentum = 0.0f;                // in [0, 1)
  };
  RmsPropKernel(RateSchedule rate, GradientTransform transform, Settings settings)
      : rate_(std::move(rate)), transform_(transform), settings_(settings) {}
  int state_slots() const override { return settings_.momentum > 0.0f ? 2 : 1; }
  void Apply(uint64_t k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override;
  void ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
                    std::span<float> moved, bool fresh) const override;
  std::optional<OptimizerStep> StepAt(uint64_t k) const override;

 private:
  RmsPropStep ConstantsAt(uint64_t k) const;
  void Run(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
           MoveRecord record) const;

  const RateSchedule rate_;
  const GradientTransform transform_;
  const Settings settings_;
};

}  // namespace monsoon
