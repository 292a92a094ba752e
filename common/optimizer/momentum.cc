#include "common/optimizer/momentum.h"

#include "common/base/check.h"

namespace monsoon {

void MomentumKernel::Apply(uint64_t k, std::span<float> w, std::span<float> state,
                           std::span<const float> g) const {
  CHECK_EQ(w.size(), g.size());
  CHECK_EQ(w.size(), state.size());
  ActiveOptimizerLoops().momentum(w.size(), transform_, rate_.At(k), momentum_, w.data(),
                                  state.data(), g.data());
}

}  // namespace monsoon
