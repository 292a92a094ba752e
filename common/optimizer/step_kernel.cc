#include "common/optimizer/step_kernel.h"

#include <utility>

#include "common/base/check.h"
#include "common/optimizer/active_loops.h"

namespace monsoon {

StepKernel::StepKernel(const Optimizer& optimizer, std::shared_ptr<const RateReductions> reductions)
    : optimizer_(optimizer),
      kind_(*FindKind(optimizer)),
      rate_(RateOf(optimizer), optimizer.schedule(), std::move(reductions)),
      slots_(kind_.slots(optimizer)),
      initial_state_(InitialState(optimizer)) {
  if (optimizer.clip_value() > 0.0) {
    common_.clip = static_cast<float>(optimizer.clip_value());
  }
  common_.weight_decay = static_cast<float>(optimizer.weight_decay());
}

void StepKernel::Apply(PushNumber k, std::span<float> w, OptimizerState state,
                       std::span<const float> g) const {
  Run(k, w, state, g, {nullptr, false});
}

void StepKernel::ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                              std::span<const float> g, std::span<float> moved, bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, {moved.data(), fresh});
}

OptimizerStep StepKernel::MakeStep(PushNumber k) const {
  OptimizerStep step = common_;
  step.rate = rate_.At(k.push);
  kind_.step(optimizer_, k.step(), &step);
  return step;
}

void StepKernel::Run(PushNumber k, std::span<float> w, OptimizerState state,
                     std::span<const float> g, MoveRecord record) const {
  const size_t n = w.size();
  CHECK_EQ(n, g.size());
  CHECK(slots_ > 0 || state.empty());
  const OptimizerStep step = MakeStep(k);
  float* const first = slots_ > 0 ? state.Slot(0, slots_, n) : nullptr;
  float* const second = slots_ > 1 ? state.Slot(1, slots_, n) : nullptr;
  ActiveOptimizerLoops().update[static_cast<size_t>(step.rule)](n, step, w.data(), first, second,
                                                                g.data(), record);
}

}  // namespace monsoon
