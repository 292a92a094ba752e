#include "common/optimizer/nesterov.h"

#include "common/base/check.h"

namespace monsoon {

void NesterovKernel::Apply(uint64_t k, std::span<float> w, OptimizerState state,
                           std::span<const float> g) const {
  Run(k, w, state, g, {nullptr, false});
}

void NesterovKernel::ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state,
                                  std::span<const float> g, std::span<float> moved,
                                  bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, {moved.data(), fresh});
}

std::optional<OptimizerStep> NesterovKernel::StepAt(uint64_t k) const {
  OptimizerStep step = MakeStep(OptimizerStep::Kind::kNesterov, rate_.At(k), transform_);
  step.nesterov = ConstantsAt(k);
  return step;
}

NesterovStep NesterovKernel::ConstantsAt(uint64_t k) const {
  const auto period = static_cast<double>(settings_.period);
  NesterovStep step;
  step.closes = (k + 1) % settings_.period == 0;
  step.rate = rate_.At(k);
  step.momentum = static_cast<float>(settings_.momentum);
  step.part = static_cast<float>(1.0 / period);
  const double share =
      step.closes ? 1.0 - settings_.share * period + settings_.share : settings_.share;
  step.ahead = static_cast<float>(share * settings_.momentum);
  return step;
}

void NesterovKernel::Run(uint64_t k, std::span<float> w, OptimizerState state,
                         std::span<const float> g, MoveRecord record) const {
  CHECK_EQ(w.size(), g.size());
  const int slots = state_slots();
  ActiveOptimizerLoops().nesterov(
      w.size(), transform_, ConstantsAt(k), w.data(), state.Slot(0, slots, w.size()),
      slots == 1 ? nullptr : state.Slot(1, slots, w.size()), g.data(), record);
}

}  // namespace monsoon
