#include "common/collective/sum_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

void Add(size_t n, const float* __restrict from, float* __restrict to) {
  for (size_t i = 0; i < n; ++i) {
    to[i] = from[i] + to[i];
  }
}

}  // namespace

const SumLoops kSumLoops = {Add};

}  // namespace monsoon::SIMD_NAMESPACE
