#include "common/optimizer/momentum.h"

#include "common/base/check.h"

namespace monsoon {
namespace {

template <bool kTransform>
void Update(size_t n, float rate, float momentum, GradientTransform transform, float* __restrict w,
            float* __restrict v, const float* __restrict g) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = kTransform ? transform(g[i], w[i]) : g[i];
    const float vi = momentum * v[i] + gi;
    v[i] = vi;
    w[i] -= rate * vi;
  }
}

}  // namespace

void MomentumKernel::Apply(uint64_t k, std::span<float> w, std::span<float> state,
                           std::span<const float> g) const {
  CHECK_EQ(w.size(), g.size());
  CHECK_EQ(w.size(), state.size());
  if (transform_.identity()) {
    Update<false>(w.size(), rate_.At(k), momentum_, transform_, w.data(), state.data(), g.data());
  } else {
    Update<true>(w.size(), rate_.At(k), momentum_, transform_, w.data(), state.data(), g.data());
  }
}

}  // namespace monsoon
