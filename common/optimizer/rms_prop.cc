#include "common/optimizer/rms_prop.h"

#include "common/base/check.h"

namespace monsoon {

void RmsPropKernel::Apply(uint64_t k, std::span<float> w, OptimizerState state,
                          std::span<const float> g) const {
  Run(k, w, state, g, {nullptr, false});
}

void RmsPropKernel::ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state,
                                 std::span<const float> g, std::span<float> moved,
                                 bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, {moved.data(), fresh});
}

std::optional<OptimizerStep> RmsPropKernel::StepAt(uint64_t k) const {
  OptimizerStep step = MakeStep(OptimizerStep::Kind::kRmsProp, rate_.At(k), transform_);
  step.rms_prop = ConstantsAt(k);
  return step;
}

RmsPropStep RmsPropKernel::ConstantsAt(uint64_t k) const {
  RmsPropStep step;
  step.alpha = static_cast<float>(settings_.alpha);
  step.rest = static_cast<float>(1.0 - settings_.alpha);
  step.rate = rate_.At(k);
  step.epsilon = settings_.epsilon;
  step.momentum = settings_.momentum;
  return step;
}

void RmsPropKernel::Run(uint64_t k, std::span<float> w, OptimizerState state,
                        std::span<const float> g, MoveRecord record) const {
  CHECK_EQ(w.size(), g.size());
  const int slots = state_slots();
  ActiveOptimizerLoops().rms_prop(
      w.size(), transform_, ConstantsAt(k), w.data(), state.Slot(0, slots, w.size()),
      slots == 1 ? nullptr : state.Slot(1, slots, w.size()), g.data(), record);
}

}  // namespace monsoon
