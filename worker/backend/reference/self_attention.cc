#include <algorithm>
#include <cmath>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

// Row-major.
struct Matrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<double> values = std::vector<double>(rows * columns, 0.0);

  double& operator()(size_t row, size_t column) { return values[row * columns + column]; }
  double operator()(size_t row, size_t column) const { return values[row * columns + column]; }
};

// y = W x + b of each row x.
struct Projection {
  TensorSlot weight;
  TensorSlot bias;
  size_t units;

  Matrix Forward(std::span<const double> parameters, const Matrix& x) const {
    Matrix y{x.rows, units};
    for (size_t row = 0; row < x.rows; ++row) {
      for (size_t u = 0; u < units; ++u) {
        y(row, u) = bias.size == 0 ? 0.0 : parameters[bias.offset + u];
        for (size_t i = 0; i < x.columns; ++i) {
          y(row, u) += parameters[weight.offset + u * x.columns + i] * x(row, i);
        }
      }
    }
    return y;
  }

  // Returns dloss/dx and adds to `gradient`.
  Matrix Backward(std::span<const double> parameters, const Matrix& x, const Matrix& dy,
                  std::span<double> gradient) const {
    Matrix dx{x.rows, x.columns};
    for (size_t row = 0; row < x.rows; ++row) {
      for (size_t u = 0; u < units; ++u) {
        if (bias.size != 0) {
          gradient[bias.offset + u] += dy(row, u);
        }
        for (size_t i = 0; i < x.columns; ++i) {
          const size_t w = weight.offset + u * x.columns + i;
          gradient[w] += dy(row, u) * x(row, i);
          dx(row, i) += dy(row, u) * parameters[w];
        }
      }
    }
    return dx;
  }
};

class SelfAttention : public ReferenceLayer {
 public:
  explicit SelfAttention(const LayerPlan& plan)
      : steps_(plan.input.steps),
        features_(plan.input.features()),
        heads_(plan.heads),
        width_(features_ / heads_),
        causal_(plan.causal) {
    const bool with_bias = plan.tensors.size() == 4;
    const auto slot = [&](size_t i) {
      return i < plan.tensors.size() ? plan.tensors[i] : TensorSlot();
    };
    in_ = {slot(0), with_bias ? slot(1) : TensorSlot(), 3 * features_};
    out_ = {slot(with_bias ? 2 : 1), with_bias ? slot(3) : TensorSlot(), features_};
  }

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t n = 0; n < pass.examples; ++n) {
      const Matrix qkv = in_.Forward(pass.parameters, Sample(in, n));
      Matrix mixed{steps_, features_};
      for (size_t head = 0; head < heads_; ++head) {
        Mix(qkv, Probabilities(qkv, head), head, &mixed);
      }
      const Matrix y = out_.Forward(pass.parameters, mixed);
      std::copy(y.values.begin(), y.values.end(),
                out.begin() + static_cast<ptrdiff_t>(n * steps_ * features_));
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> gradient) override {
    for (size_t n = 0; n < pass.examples; ++n) {
      const Matrix x = Sample(in, n);
      const Matrix qkv = in_.Forward(pass.parameters, x);
      Matrix mixed{steps_, features_};
      for (size_t head = 0; head < heads_; ++head) {
        Mix(qkv, Probabilities(qkv, head), head, &mixed);
      }
      const Matrix dmixed = out_.Backward(pass.parameters, mixed, Sample(out_diff, n), gradient);
      Matrix dqkv{steps_, 3 * features_};
      for (size_t head = 0; head < heads_; ++head) {
        MixBackward(qkv, Probabilities(qkv, head), head, dmixed, &dqkv);
      }
      const Matrix dx = in_.Backward(pass.parameters, x, dqkv, gradient);
      std::copy(dx.values.begin(), dx.values.end(),
                in_diff.begin() + static_cast<ptrdiff_t>(n * steps_ * features_));
    }
  }

 private:
  Matrix Sample(std::span<const double> values, size_t n) const {
    const std::span<const double> sample =
        values.subspan(n * steps_ * features_, steps_ * features_);
    return {steps_, features_, std::vector<double>(sample.begin(), sample.end())};
  }

  // Columns of q, k and v of one head in a row of qkv.
  size_t Q(size_t head, size_t i) const { return head * width_ + i; }
  size_t K(size_t head, size_t i) const { return features_ + Q(head, i); }
  size_t V(size_t head, size_t i) const { return 2 * features_ + Q(head, i); }
  double Scale() const { return 1.0 / std::sqrt(static_cast<double>(width_)); }
  // Steps that step t sees.
  size_t Seen(size_t t) const { return causal_ ? t + 1 : steps_; }

  // softmax(q k^T / sqrt(d)), zero where nothing is seen.
  Matrix Probabilities(const Matrix& qkv, size_t head) const {
    Matrix p{steps_, steps_};
    for (size_t t = 0; t < steps_; ++t) {
      double largest = -INFINITY;
      for (size_t s = 0; s < Seen(t); ++s) {
        double product = 0;
        for (size_t i = 0; i < width_; ++i) {
          product += qkv(t, Q(head, i)) * qkv(s, K(head, i));
        }
        p(t, s) = product * Scale();
        largest = std::max(largest, p(t, s));
      }
      double sum = 0;
      for (size_t s = 0; s < Seen(t); ++s) {
        p(t, s) = std::exp(p(t, s) - largest);
        sum += p(t, s);
      }
      for (size_t s = 0; s < Seen(t); ++s) {
        p(t, s) /= sum;
      }
    }
    return p;
  }

  void Mix(const Matrix& qkv, const Matrix& p, size_t head, Matrix* mixed) const {
    for (size_t t = 0; t < steps_; ++t) {
      for (size_t i = 0; i < width_; ++i) {
        for (size_t s = 0; s < Seen(t); ++s) {
          (*mixed)(t, Q(head, i)) += p(t, s) * qkv(s, V(head, i));
        }
      }
    }
  }

  void MixBackward(const Matrix& qkv, const Matrix& p, size_t head, const Matrix& dmixed,
                   Matrix* dqkv) const {
    for (size_t t = 0; t < steps_; ++t) {
      std::vector<double> dp(steps_, 0.0);
      double mean = 0;  // of dp, under p
      for (size_t s = 0; s < Seen(t); ++s) {
        for (size_t i = 0; i < width_; ++i) {
          dp[s] += dmixed(t, Q(head, i)) * qkv(s, V(head, i));
          (*dqkv)(s, V(head, i)) += p(t, s) * dmixed(t, Q(head, i));
        }
        mean += p(t, s) * dp[s];
      }
      for (size_t s = 0; s < Seen(t); ++s) {
        const double diff = p(t, s) * (dp[s] - mean) * Scale();
        for (size_t i = 0; i < width_; ++i) {
          (*dqkv)(t, Q(head, i)) += diff * qkv(s, K(head, i));
          (*dqkv)(s, K(head, i)) += diff * qkv(t, Q(head, i));
        }
      }
    }
  }

  size_t steps_;
  size_t features_;
  size_t heads_;
  size_t width_;  // of a head
  bool causal_;
  Projection in_;
  Projection out_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeSelfAttention(const LayerPlan& plan) {
  return std::make_unique<SelfAttention>(plan);
}

}  // namespace monsoon::reference
