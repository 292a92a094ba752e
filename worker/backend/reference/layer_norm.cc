#include <cmath>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

class LayerNorm : public ReferenceLayer {
 public:
  explicit LayerNorm(const LayerPlan& plan)
      : scale_(plan.weight),
        shift_(plan.bias),
        features_(plan.input.features()),
        steps_(plan.input.steps),
        epsilon_(plan.epsilon) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t row = 0; row < pass.examples * steps_; ++row) {
      const std::span<const double> x = in.subspan(row * features_, features_);
      const Moments moments = MomentsOf(x);
      for (size_t i = 0; i < features_; ++i) {
        out[row * features_ + i] =
            pass.parameters[scale_.offset + i] * (x[i] - moments.mean) / moments.deviation +
            (shift_.size == 0 ? 0.0 : pass.parameters[shift_.offset + i]);
      }
    }
  }

  // With z = (x - mean) / deviation and e = dloss/dz:
  // dloss/dx = (e - mean(e) - z mean(e z)) / deviation.
  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> gradient) override {
    const auto n = static_cast<double>(features_);
    for (size_t row = 0; row < pass.examples * steps_; ++row) {
      const std::span<const double> x = in.subspan(row * features_, features_);
      const std::span<const double> diff = out_diff.subspan(row * features_, features_);
      const Moments moments = MomentsOf(x);
      double mean_e = 0;
      double mean_ez = 0;
      for (size_t i = 0; i < features_; ++i) {
        const double z = (x[i] - moments.mean) / moments.deviation;
        const double e = diff[i] * pass.parameters[scale_.offset + i];
        mean_e += e / n;
        mean_ez += e * z / n;
        gradient[scale_.offset + i] += diff[i] * z;
        if (shift_.size != 0) {
          gradient[shift_.offset + i] += diff[i];
        }
      }
      for (size_t i = 0; i < features_; ++i) {
        const double z = (x[i] - moments.mean) / moments.deviation;
        const double e = diff[i] * pass.parameters[scale_.offset + i];
        in_diff[row * features_ + i] = (e - mean_e - z * mean_ez) / moments.deviation;
      }
    }
  }

 private:
  struct Moments {
    double mean = 0;
    double deviation = 0;  // sqrt(variance + epsilon)
  };

  Moments MomentsOf(std::span<const double> x) const {
    const auto n = static_cast<double>(features_);
    double mean = 0;
    for (const double value : x) {
      mean += value / n;
    }
    double variance = 0;
    for (const double value : x) {
      variance += (value - mean) * (value - mean) / n;
    }
    return {mean, std::sqrt(variance + epsilon_)};
  }

  TensorSlot scale_;
  TensorSlot shift_;
  size_t features_;
  size_t steps_;
  double epsilon_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeLayerNorm(const LayerPlan& plan) {
  return std::make_unique<LayerNorm>(plan);
}

}  // namespace monsoon::reference
