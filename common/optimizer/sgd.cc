#include "common/optimizer/sgd.h"

#include "common/base/check.h"

namespace monsoon {
namespace {

template <bool kTransform>
void Update(size_t n, float rate, GradientTransform transform, float* __restrict w,
            const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = kTransform ? transform(g[i], w[i]) : g[i];
    w[i] -= rate * gi;
  }
}

}  // namespace

void SgdKernel::Apply(uint64_t k, std::span<float> w, std::span<float> state,
                      std::span<const float> g) const {
  CHECK_EQ(w.size(), g.size());
  CHECK(state.empty());
  if (transform_.identity()) {
    Update<false>(w.size(), rate_.At(k), transform_, w.data(), g.data());
  } else {
    Update<true>(w.size(), rate_.At(k), transform_, w.data(), g.data());
  }
}

}  // namespace monsoon
