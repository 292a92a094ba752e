// GradientSum: the sum of one contribution's sample gradients, from the mean
// gradients of its batches: sum over batches of (samples x mean), added in
// double in the order given and rounded to float32 once. So the bits follow
// from the batches alone, and cancellation between batches costs no digits.
//
// Memory: 8 bytes a parameter. Thread safety: none, but that AddSlice calls for
// disjoint slices may run at once.
#pragma once

#include <cstddef>
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

  // The same in parts: Add(mean, examples) is AddSlice of slices that cover all,
  // and then EndAdd.
  void AddSlice(std::span<const float> mean, uint64_t examples, size_t begin, size_t end);
  void EndAdd() { empty_ = false; }

  // The sum, rounded; not when empty. `out` has as many values.
  void Round(std::span<float> out) const;

 private:
  std::vector<double> sum_;
  bool empty_ = true;
};

// to[i] = from[0][i] + from[1][i] + ... in this order, for i in [begin, end).
// At least one; none may overlap `to`.
void SumInOrder(std::span<const float* const> from, size_t begin, size_t end, float* to);

}  // namespace monsoon
