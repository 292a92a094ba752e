#include "common/optimizer/adagrad.h"

#include "common/base/check.h"

namespace monsoon {

void AdagradKernel::Apply(uint64_t k, std::span<float> w, OptimizerState state,
                          std::span<const float> g) const {
  Run(k, w, state, g, {nullptr, false});
}

void AdagradKernel::ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state,
                                 std::span<const float> g, std::span<float> moved,
                                 bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, {moved.data(), fresh});
}

std::optional<OptimizerStep> AdagradKernel::StepAt(uint64_t k) const {
  OptimizerStep step = MakeStep(OptimizerStep::Kind::kAdagrad, rate_.At(k), transform_);
  step.epsilon = epsilon_;
  return step;
}

void AdagradKernel::Run(uint64_t k, std::span<float> w, OptimizerState state,
                        std::span<const float> g, MoveRecord record) const {
  CHECK_EQ(w.size(), g.size());
  ActiveOptimizerLoops().adagrad(w.size(), transform_, rate_.At(k), epsilon_, w.data(),
                                 state.Slot(0, 1, w.size()), g.data(), record);
}

}  // namespace monsoon
