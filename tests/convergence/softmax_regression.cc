#include "tests/convergence/softmax_regression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

namespace monsoon::testing {
namespace {

constexpr size_t kThreads = 2;
constexpr size_t kClasses = SoftmaxRegression::kClasses;

// logits -> softmax - onehot(label); the loss.
double LossAndSlopes(uint32_t label, std::array<double, kClasses>* logits) {
  const double largest = *std::max_element(logits->begin(), logits->end());
  const double at_label = (*logits)[label] - largest;
  double sum = 0.0;
  for (double& z : *logits) {
    z = std::exp(z - largest);
    sum += z;
  }
  for (double& z : *logits) {
    z /= sum;
  }
  (*logits)[label] -= 1.0;
  return std::log(sum) - at_label;
}

}  // namespace

double SoftmaxRegression::AddSamples(size_t begin, size_t end, const std::vector<double>& weights,
                                     std::vector<double>* gradient) const {
  double loss = 0.0;
  const double* const bias = weights.data() + features_ * kClasses;
  double* const bias_gradient = gradient->data() + features_ * kClasses;
  for (size_t i = begin; i < end; ++i) {
    const float* const x = inputs_.data() + i * features_;
    std::array<double, kClasses> slopes;
    std::copy(bias, bias + kClasses, slopes.begin());
    for (size_t j = 0; j < features_; ++j) {
      const double value = x[j];
      const double* const row = weights.data() + j * kClasses;
      for (size_t c = 0; c < kClasses; ++c) {
        slopes[c] += value * row[c];
      }
    }
    loss += LossAndSlopes(labels_[i], &slopes);
    for (size_t j = 0; j < features_; ++j) {
      const double value = x[j];
      double* const row = gradient->data() + j * kClasses;
      for (size_t c = 0; c < kClasses; ++c) {
        row[c] += value * slopes[c];
      }
    }
    for (size_t c = 0; c < kClasses; ++c) {
      bias_gradient[c] += slopes[c];
    }
  }
  return loss;
}

double SoftmaxRegression::Evaluate(std::span<const double> w, std::span<double> gradient) const {
  const size_t parameters = (features_ + 1) * kClasses;
  std::vector<double> weights(parameters);
  for (size_t c = 0; c < kClasses; ++c) {
    for (size_t j = 0; j < features_; ++j) {
      weights[j * kClasses + c] = w[c * features_ + j];
    }
  }
  std::copy_n(w.data() + features_ * kClasses, kClasses, weights.data() + features_ * kClasses);

  const size_t samples = labels_.size();
  std::array<double, kThreads> losses;
  std::array<std::vector<double>, kThreads> sums;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    sums[t].assign(parameters, 0.0);
    threads.emplace_back([&, t] {
      losses[t] =
          AddSamples(samples * t / kThreads, samples * (t + 1) / kThreads, weights, &sums[t]);
    });
  }
  double f = 0.0;
  for (size_t t = 0; t < kThreads; ++t) {
    threads[t].join();
    f += losses[t];
  }
  f /= static_cast<double>(samples);
  const auto mean = [&](size_t index) {
    double sum = 0.0;
    for (const std::vector<double>& part : sums) {
      sum += part[index];
    }
    return sum / static_cast<double>(samples);
  };
  std::fill(gradient.begin(), gradient.end(), 0.0);
  for (size_t c = 0; c < kClasses; ++c) {
    for (size_t j = 0; j <= features_; ++j) {
      const size_t index = j < features_ ? c * features_ + j : features_ * kClasses + c;
      gradient[index] = mean(j * kClasses + c) + l2_ * w[index];
      f += 0.5 * l2_ * w[index] * w[index];
    }
  }
  return f;
}

}  // namespace monsoon::testing
