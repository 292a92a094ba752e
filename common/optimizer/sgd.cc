#include "common/optimizer/sgd.h"

#include "common/base/check.h"

namespace monsoon {

void SgdKernel::Apply(uint64_t k, std::span<float> w, std::span<float> state,
                      std::span<const float> g) const {
  CHECK_EQ(w.size(), g.size());
  CHECK(state.empty());
  ActiveOptimizerLoops().sgd(w.size(), transform_, rate_.At(k), w.data(), g.data());
}

}  // namespace monsoon
