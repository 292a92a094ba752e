// GradientSum: the sum of one contribution's sample gradients, from the mean
// gradients of its batches: sum over batches of (samples x mean), added in
// double in the order given and rounded to float32 once. So the bits follow
// from the batches alone, and cancellation between batches costs no digits.
//
// Memory: 8 bytes a parameter. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace monsoon {

class GradientSum {
 public:
  explicit GradientSum(size_t floats) : sum_(floats) {}

  // The next Add begins a new sum.
  void Clear() { empty_ = true; }

  // `mean` is the gradient of the mean loss of `examples` samples.
  void Add(std::span<const float> mean, uint64_t examples);

  // The sum, rounded; not when empty. `out` has as many values.
  void Round(std::span<float> out) const;

 private:
  std::vector<double> sum_;
  bool empty_ = true;
};

}  // namespace monsoon
