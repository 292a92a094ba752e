#include "worker/data/normalise_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

template <typename T>
void Normalise(size_t n, float factor, float offset, const T* __restrict raw,
               float* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(raw[i]) * factor + offset;
  }
}

}  // namespace

const NormaliseLoops kNormaliseLoops = {Normalise<uint8_t>, Normalise<float>};

}  // namespace monsoon::SIMD_NAMESPACE
