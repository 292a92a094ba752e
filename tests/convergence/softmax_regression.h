// Softmax regression in double, on data in float32: the objective that a batch
// job of the softmax preset minimises,
//
//   F(w) = mean of -log softmax(W x + b)[label] + l2 / 2 * |w|^2,
//
// written without the project's layers, so that it can judge them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace monsoon::testing {

class SoftmaxRegression {
 public:
  static constexpr size_t kClasses = 10;

  // `inputs` has labels.size() samples of `features` values.
  SoftmaxRegression(std::vector<float> inputs, std::vector<uint32_t> labels, size_t features,
                    double l2)
      : inputs_(std::move(inputs)), labels_(std::move(labels)), features_(features), l2_(l2) {}

  // `w` is W [class, feature], then b [class]; what follows is padding that does
  // not matter. Writes the gradient, of the same length.
  double Evaluate(std::span<const double> w, std::span<double> gradient) const;

 private:
  // Adds the samples [begin, end) to the gradient of [feature, class], then of b.
  double AddSamples(size_t begin, size_t end, const std::vector<double>& weights,
                    std::vector<double>* gradient) const;

  const std::vector<float> inputs_;
  const std::vector<uint32_t> labels_;
  const size_t features_;
  const double l2_;
};

}  // namespace monsoon::testing
