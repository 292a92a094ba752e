// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), with t = k + 1:
//   m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g * g;
//   w -= rate(k) * decay * w + rate(k) * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
// The state is m and v. Adam's decay is 0: what weight_decay adds is part of g. The
// corrections of the bias are computed in double, once per push.
#pragma once

#include "common/optimizer/gradient_transform.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"

namespace monsoon {

inline constexpr double kDefaultBeta1 = 0.9;
inline constexpr double kDefaultBeta2 = 0.999;
inline constexpr double kDefaultAdamEpsilon = 1e-8;
inline constexpr double kDefaultAdamWDecay = 0.01;

class AdamKernel : public OptimizerKernel {
 public:
  struct Settings {
    double beta1 = kDefaultBeta1;  // both in [0, 1), in float32 too
    double beta2 = kDefaultBeta2;
    float epsilon = 0.0f;  // positive in float32
    double decay = 0.0;    // AdamW's
  };
  AdamKernel(RateSchedule rate, GradientTransform transform, Settings settings)
      : rate_(std::move(rate)), transform_(transform), settings_(settings) {}
  int state_slots() const override { return 2; }
  void Apply(uint64_t k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override;
  void ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
                    std::span<float> moved, bool fresh) const override;
  std::optional<OptimizerStep> StepAt(uint64_t k) const override;

 private:
  AdamStep ConstantsAt(uint64_t k) const;
  void Run(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
           MoveRecord record) const;

  const RateSchedule rate_;
  const GradientTransform transform_;
  const Settings settings_;
};

}  // namespace monsoon
