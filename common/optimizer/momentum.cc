#include "common/optimizer/momentum.h"

#include "common/base/check.h"

namespace monsoon {

void MomentumKernel::Apply(uint64_t k, std::span<float> w, OptimizerState state,
                           std::span<const float> g) const {
  Run(k, w, state, g, {nullptr, false});
}

void MomentumKernel::ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state,
                                  std::span<const float> g, std::span<float> moved,
                                  bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, {moved.data(), fresh});
}

std::optional<OptimizerStep> MomentumKernel::StepAt(uint64_t k) const {
  OptimizerStep step = MakeStep(OptimizerStep::Kind::kMomentum, rate_.At(k), transform_);
  step.momentum = momentum_;
  return step;
}

void MomentumKernel::Run(uint64_t k, std::span<float> w, OptimizerState state,
                         std::span<const float> g, MoveRecord record) const {
  CHECK_EQ(w.size(), g.size());
  ActiveOptimizerLoops().momentum(w.size(), transform_, rate_.At(k), momentum_, w.data(),
                                  state.Slot(0, 1, w.size()), g.data(), record);
}

}  // namespace monsoon
