#include "common/optimizer/adam.h"

#include <cmath>

#include "common/base/check.h"

namespace monsoon {

void AdamKernel::Apply(uint64_t k, std::span<float> w, OptimizerState state,
                       std::span<const float> g) const {
  Run(k, w, state, g, {nullptr, false});
}

void AdamKernel::ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state,
                              std::span<const float> g, std::span<float> moved, bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, {moved.data(), fresh});
}

std::optional<OptimizerStep> AdamKernel::StepAt(uint64_t k) const {
  OptimizerStep step = MakeStep(OptimizerStep::Kind::kAdam, rate_.At(k), transform_);
  step.adam = ConstantsAt(k);
  return step;
}

AdamStep AdamKernel::ConstantsAt(uint64_t k) const {
  const double t = static_cast<double>(k) + 1.0;
  const double rate = rate_.At(k);
  AdamStep step;
  step.beta1 = static_cast<float>(settings_.beta1);
  step.rest1 = static_cast<float>(1.0 - settings_.beta1);
  step.beta2 = static_cast<float>(settings_.beta2);
  step.rest2 = static_cast<float>(1.0 - settings_.beta2);
  step.rate = static_cast<float>(rate / (1.0 - std::pow(settings_.beta1, t)));
  step.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(settings_.beta2, t)));
  step.epsilon = settings_.epsilon;
  step.decay = static_cast<float>(rate * settings_.decay);
  return step;
}

void AdamKernel::Run(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
                     MoveRecord record) const {
  CHECK_EQ(w.size(), g.size());
  ActiveOptimizerLoops().adam(w.size(), transform_, ConstantsAt(k), w.data(),
                              state.Slot(0, 2, w.size()), state.Slot(1, 2, w.size()), g.data(),
                              record);
}

}  // namespace monsoon
