#include "worker/group/gradient_sum.h"

#include <algorithm>

#include "common/base/check.h"

namespace monsoon {

namespace {

// Floats summed at a time: their sum stays in the first-level cache.
constexpr size_t kSumBlock = 2048;

}  // namespace

void GradientSum::Add(std::span<const float> mean, uint64_t examples) {
  AddSlice(mean, examples, 0, sum_.size());
  EndAdd();
}

void GradientSum::AddSlice(std::span<const float> mean, uint64_t examples, size_t begin,
                           size_t end) {
  CHECK_EQ(mean.size(), sum_.size());
  CHECK_LE(end, sum_.size());
  const double weight = static_cast<double>(examples);
  const float* __restrict from = mean.data();
  double* __restrict to = sum_.data();
  if (empty_) {
    for (size_t i = begin; i < end; ++i) {
      to[i] = weight * from[i];
    }
  } else {
    for (size_t i = begin; i < end; ++i) {
      to[i] += weight * from[i];
    }
  }
}

void GradientSum::Round(std::span<float> out) const {
  CHECK(!empty_);
  CHECK_EQ(out.size(), sum_.size());
  const double* __restrict from = sum_.data();
  float* __restrict to = out.data();
  for (size_t i = 0; i < out.size(); ++i) {
    to[i] = static_cast<float>(from[i]);
  }
}

void SumInOrder(std::span<const float* const> from, size_t begin, size_t end, float* to) {
  CHECK(!from.empty());
  for (size_t first = begin; first < end; first += kSumBlock) {
    const size_t last = std::min(first + kSumBlock, end);
    std::copy(from[0] + first, from[0] + last, to + first);
    for (const float* const source : from.subspan(1)) {
      const float* __restrict more = source;
      float* __restrict sum = to;
      for (size_t i = first; i < last; ++i) {
        sum[i] += more[i];
      }
    }
  }
}

}  // namespace monsoon
