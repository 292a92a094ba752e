#include "tests/convergence/float64_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace monsoon::testing {
namespace {

constexpr int kNewtonSteps = 500;
// Newton's decrement relative to F at which it ends.
constexpr double kDecrement = 1e-15;
constexpr double kSufficient = 1e-4;
// Added to the Hessian, scaled to a diagonal of 1.
constexpr double kDamping = 1e-14;

// logits -> softmax - onehot(label); the loss.
double LossAndSlopes(uint32_t label, std::span<double> logits) {
  const double largest = *std::ranges::max_element(logits);
  const double at_label = logits[label] - largest;
  double sum = 0.0;
  for (double& z : logits) {
    z = std::exp(z - largest);
    sum += z;
  }
  double others = 0.0;
  for (size_t c = 0; c < logits.size(); ++c) {
    logits[c] /= sum;
    others += c == label ? 0.0 : logits[c];
  }
  logits[label] = -others;
  return std::log(sum) - at_label;
}

double Dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

// Solves a x = b by a = L L^T; `a` is symmetric, positive definite and is destroyed.
std::vector<double> Solve(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t j = 0; j < n; ++j) {
    const std::span<const double> row_j(&a[j * n], j);
    a[j * n + j] = std::sqrt(std::max(a[j * n + j] - Dot(row_j, row_j), kDamping));
    for (size_t i = j + 1; i < n; ++i) {
      a[i * n + j] = (a[i * n + j] - Dot({&a[i * n], j}, row_j)) / a[j * n + j];
    }
    b[j] = (b[j] - Dot(row_j, {b.data(), j})) / a[j * n + j];
  }
  for (size_t j = n; j-- > 0;) {
    for (size_t i = j + 1; i < n; ++i) {
      b[j] -= a[i * n + j] * b[i];
    }
    b[j] /= a[j * n + j];
  }
  return b;
}

}  // namespace

size_t Float64Network::parameters() const {
  size_t count = 0;
  for (size_t layer = 0; layer + 1 < widths_.size(); ++layer) {
    count += (widths_[layer] + 1) * widths_[layer + 1];
  }
  return count;
}

double Float64Network::Evaluate(std::span<const double> w, std::span<double> gradient) const {
  const size_t layers = widths_.size() - 1;
  std::ranges::fill(gradient, 0.0);
  double loss = 0.0;
  std::vector<std::vector<double>> at(layers + 1);
  for (size_t sample = 0; sample < labels_.size(); ++sample) {
    const auto first = inputs_.begin() + static_cast<ptrdiff_t>(sample * widths_[0]);
    at[0].assign(first, first + static_cast<ptrdiff_t>(widths_[0]));
    size_t offset = 0;
    for (size_t layer = 0; layer < layers; ++layer) {
      const size_t in = widths_[layer], out = widths_[layer + 1];
      at[layer + 1].resize(out);
      for (size_t o = 0; o < out; ++o) {
        const double z = Dot(w.subspan(offset + o * in, in), at[layer]) + w[offset + out * in + o];
        at[layer + 1][o] = layer + 1 < layers ? std::max(z, 0.0) : z;
      }
      offset += (in + 1) * out;
    }
    loss += LossAndSlopes(labels_[sample], at[layers]);
    std::vector<double> slopes = at[layers];
    for (size_t layer = layers; layer-- > 0;) {
      const size_t in = widths_[layer], out = widths_[layer + 1];
      offset -= (in + 1) * out;
      std::vector<double> below(in, 0.0);
      for (size_t o = 0; o < out; ++o) {
        for (size_t i = 0; i < in; ++i) {
          gradient[offset + o * in + i] += slopes[o] * at[layer][i];
          below[i] += slopes[o] * w[offset + o * in + i];
        }
        gradient[offset + out * in + o] += slopes[o];
      }
      for (size_t i = 0; i < in; ++i) {
        below[i] = at[layer][i] > 0.0 ? below[i] : 0.0;
      }
      slopes = std::move(below);
    }
  }
  const auto samples = static_cast<double>(labels_.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = gradient[i] / samples + l2_ * w[i];
  }
  return loss / samples + 0.5 * l2_ * Dot(w, w);
}

std::vector<double> Float64Network::Hessian(std::span<const double> w) const {
  const size_t in = widths_[0], classes = widths_[1], n = w.size();
  std::vector<double> hessian(n * n, 0.0);
  std::vector<double> x(in + 1, 1.0);
  std::vector<double> p(classes);
  // The place of feature i (the bias behind the features) of class c.
  const auto place = [&](size_t c, size_t i) { return i < in ? c * in + i : classes * in + c; };
  for (size_t sample = 0; sample < labels_.size(); ++sample) {
    std::copy_n(inputs_.begin() + static_cast<ptrdiff_t>(sample * in), in, x.begin());
    for (size_t c = 0; c < classes; ++c) {
      p[c] = Dot(w.subspan(c * in, in), {x.data(), in}) + w[classes * in + c];
    }
    LossAndSlopes(labels_[sample], p);
    p[labels_[sample]] += 1.0;
    for (size_t a = 0; a < classes; ++a) {
      for (size_t b = 0; b < classes; ++b) {
        const double q = p[a] * ((a == b ? 1.0 : 0.0) - p[b]) / static_cast<double>(labels_.size());
        for (size_t i = 0; i <= in; ++i) {
          double* const row = &hessian[place(a, i) * n];
          const double factor = q * x[i];
          for (size_t j = 0; j < in; ++j) {
            row[b * in + j] += factor * x[j];
          }
          row[classes * in + b] += factor;
        }
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    hessian[i * n + i] += l2_;
  }
  return hessian;
}

double Float64Network::NewtonMinimum(std::vector<double> w) const {
  const size_t n = w.size();
  std::vector<double> gradient(n), trial(n), trial_gradient(n), scale(n), step(n);
  double f = Evaluate(w, gradient);
  for (int iteration = 0; iteration < kNewtonSteps; ++iteration) {
    std::vector<double> hessian = Hessian(w);
    for (size_t i = 0; i < n; ++i) {
      scale[i] = 1.0 / std::sqrt(hessian[i * n + i]);
    }
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        hessian[i * n + j] *= scale[i] * scale[j];
      }
      hessian[i * n + i] += kDamping;
      step[i] = -scale[i] * gradient[i];
    }
    step = Solve(std::move(hessian), std::move(step));
    for (size_t i = 0; i < n; ++i) {
      step[i] *= scale[i];
    }
    const double slope = Dot(gradient, step);
    double t = 1.0;
    double next = std::numeric_limits<double>::infinity();
    for (; t > 1e-10; t /= 2) {
      for (size_t i = 0; i < n; ++i) {
        trial[i] = w[i] + t * step[i];
      }
      next = Evaluate(trial, trial_gradient);
      if (next <= f + kSufficient * t * slope) {
        break;
      }
    }
    if (!(next < f) || -slope < kDecrement * f) {
      break;
    }
    w.swap(trial);
    gradient.swap(trial_gradient);
    f = next;
  }
  return f;
}

}  // namespace monsoon::testing
