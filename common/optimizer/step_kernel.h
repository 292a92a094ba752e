// StepKernel: the kernel of any kind of optimizer (optimizer_kinds.h) without an average: a push
// is one OptimizerStep for all parameters, and the loop of its rule.
#pragma once

#include <memory>

#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/optimizer_loops.h"
#include "common/optimizer/schedule.h"

namespace monsoon {

class StepKernel final : public OptimizerKernel {
 public:
  // `optimizer` is one that CheckOptimizer takes.
  StepKernel(const Optimizer& optimizer, std::shared_ptr<const RateReductions> reductions);

  int state_slots() const override { return slots_; }
  float initial_state() const override { return initial_state_; }
  void Apply(PushNumber k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override;
  void ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                    std::span<const float> g, std::span<float> moved, bool fresh) const override;
  std::optional<OptimizerStep> StepAt(uint64_t k) const override { return MakeStep(k); }

 private:
  OptimizerStep MakeStep(PushNumber k) const;
  void Run(PushNumber k, std::span<float> w, OptimizerState state, std::span<const float> g,
           MoveRecord record) const;

  const Optimizer optimizer_;
  const OptimizerKind& kind_;
  const RateSchedule rate_;
  const int slots_;
  const float initial_state_;
  OptimizerStep common_;  // what all pushes have alike
};

}  // namespace monsoon
