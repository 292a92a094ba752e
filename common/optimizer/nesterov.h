// Nesterov's momentum, at each push or delayed (Liu et al. 2024, arXiv 2401.09135); the
// equations stand beside Nesterov in proto/job.proto. The state is b, and with a period
// above 1 also B, the sum of the gradients since b last moved.
#pragma once

#include <cstdint>

#include "common/optimizer/gradient_transform.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"

namespace monsoon {

class NesterovKernel : public OptimizerKernel {
 public:
  struct Settings {
    double momentum = 0.0;  // in [0, 1)
    uint32_t period = 1;    // at least 1
    double share = 0.0;     // in [0, 1 / period]
  };
  NesterovKernel(RateSchedule rate, GradientTransform transform, Settings settings)
      : rate_(std::move(rate)), transform_(transform), settings_(settings) {}
  int state_slots() const override { return settings_.period > 1 ? 2 : 1; }
  void Apply(uint64_t k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override;
  void ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
                    std::span<float> moved, bool fresh) const override;
  std::optional<OptimizerStep> StepAt(uint64_t k) const override;

 private:
  NesterovStep ConstantsAt(uint64_t k) const;
  void Run(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
           MoveRecord record) const;

  const RateSchedule rate_;
  const GradientTransform transform_;
  const Settings settings_;
};

}  // namespace monsoon
