// Dense layers with ReLU between them and the mean softmax cross-entropy, in double:
// the objective of a batch job on such a model,
//
//   F(w) = mean of -log softmax(...)[label] + l2 / 2 * |w|^2,
//
// written without the project's layers, so that it can judge them. Without a hidden
// layer it is softmax regression, which has one minimum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace monsoon::testing {

class Float64Network {
 public:
  // `widths`: values of a sample, of each hidden layer, classes. `inputs` has
  // labels.size() samples.
  Float64Network(std::vector<size_t> widths, std::vector<float> inputs,
                 std::vector<uint32_t> labels, double l2)
      : widths_(std::move(widths)),
        inputs_(std::move(inputs)),
        labels_(std::move(labels)),
        l2_(l2) {}

  // Of all layers: per layer W [out, in], then b [out].
  size_t parameters() const;

  // F at `w`; writes its gradient.
  double Evaluate(std::span<const double> w, std::span<double> gradient) const;

  // The minimum of softmax regression, by Newton's method from `w`: whatever the
  // condition.
  double NewtonMinimum(std::vector<double> w) const;

 private:
  // Of softmax regression; symmetric, rows one after another.
  std::vector<double> Hessian(std::span<const double> w) const;

  const std::vector<size_t> widths_;
  const std::vector<float> inputs_;
  const std::vector<uint32_t> labels_;
  const double l2_;
};

}  // namespace monsoon::testing
