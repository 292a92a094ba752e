#include <cmath>
#include <numbers>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

class Activation : public ReferenceLayer {
 public:
  explicit Activation(LayerKind kind) : kind_(kind) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t i = 0; i < in.size(); ++i) {
      out[i] = Value(in[i]);
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> out,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> /*gradient*/) override {
    for (size_t i = 0; i < in.size(); ++i) {
      in_diff[i] = out_diff[i] * Derivative(in[i], out[i]);
    }
  }

 private:
  double Value(double x) const {
    switch (kind_) {
      case LayerKind::kSigmoid:
        return 1.0 / (1.0 + std::exp(-x));
      case LayerKind::kTanh:
        return std::tanh(x);
      case LayerKind::kGelu:
        return x * Phi(x);
      default:
        return x > 0 ? x : 0.0;
    }
  }

  double Derivative(double x, double y) const {
    switch (kind_) {
      case LayerKind::kSigmoid:
        return y * (1.0 - y);
      case LayerKind::kTanh:
        return 1.0 - y * y;
      case LayerKind::kGelu:
        return Phi(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
      default:
        return x > 0 ? 1.0 : 0.0;
    }
  }

  // The normal distribution's.
  static double Phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

  LayerKind kind_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeActivation(const LayerPlan& plan) {
  return std::make_unique<Activation>(plan.kind);
}

}  // namespace monsoon::reference
