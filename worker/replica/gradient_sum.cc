#include "worker/replica/gradient_sum.h"

#include "common/base/check.h"

namespace monsoon {

void GradientSum::Add(std::span<const float> mean, uint64_t examples) {
  CHECK_EQ(mean.size(), sum_.size());
  const double weight = static_cast<double>(examples);
  const float* __restrict from = mean.data();
  double* __restrict to = sum_.data();
  if (empty_) {
    for (size_t i = 0; i < sum_.size(); ++i) {
      to[i] = weight * from[i];
    }
  } else {
    for (size_t i = 0; i < sum_.size(); ++i) {
      to[i] += weight * from[i];
    }
  }
  empty_ = false;
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

}  // namespace monsoon
