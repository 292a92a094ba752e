#include "common/optimizer/sgd.h"

#include "common/base/check.h"

namespace monsoon {

void SgdKernel::Apply(uint64_t k, std::span<float> w, OptimizerState state,
                      std::span<const float> g) const {
  Run(k, w, state, g, {nullptr, false});
}

void SgdKernel::ApplyAndTell(uint64_t k, std::span<float> w, OptimizerState state,
                             std::span<const float> g, std::span<float> moved, bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, {moved.data(), fresh});
}

std::optional<OptimizerStep> SgdKernel::StepAt(uint64_t k) const {
  return MakeStep(OptimizerStep::Kind::kSgd, rate_.At(k), transform_);
}

void SgdKernel::Run(uint64_t k, std::span<float> w, OptimizerState state, std::span<const float> g,
                    MoveRecord record) const {
  CHECK_EQ(w.size(), g.size());
  CHECK(state.empty());
  ActiveOptimizerLoops().sgd(w.size(), transform_, rate_.At(k), w.data(), g.data(), record);
}

}  // namespace monsoon
