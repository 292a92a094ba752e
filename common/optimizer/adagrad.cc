#include "common/optimizer/adagrad.h"

#include "common/base/check.h"

namespace monsoon {

void AdagradKernel::Apply(uint64_t k, std::span<float> w, std::span<float> state,
                          std::span<const float> g) const {
  CHECK_EQ(w.size(), g.size());
  CHECK_EQ(w.size(), state.size());
  ActiveOptimizerLoops().adagrad(w.size(), transform_, rate_.At(k), epsilon_, w.data(),
                                 state.data(), g.data());
}

}  // namespace monsoon
