#include <algorithm>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

class Dense : public ReferenceLayer {
 public:
  explicit Dense(const LayerPlan& plan)
      : weight_(plan.weight),
        bias_(plan.bias),
        inputs_(plan.input.features()),
        units_(plan.output.features()),
        steps_(plan.input.steps) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t n = 0; n < pass.examples * steps_; ++n) {
      for (size_t u = 0; u < units_; ++u) {
        double sum = bias_.size == 0 ? 0.0 : pass.parameters[bias_.offset + u];
        for (size_t i = 0; i < inputs_; ++i) {
          sum += pass.parameters[weight_.offset + u * inputs_ + i] * in[n * inputs_ + i];
        }
        out[n * units_ + u] = sum;
      }
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> gradient) override {
    std::fill(in_diff.begin(), in_diff.end(), 0.0);
    for (size_t n = 0; n < pass.examples * steps_; ++n) {
      for (size_t u = 0; u < units_; ++u) {
        const double diff = out_diff[n * units_ + u];
        if (bias_.size != 0) {
          gradient[bias_.offset + u] += diff;
        }
        for (size_t i = 0; i < inputs_; ++i) {
          gradient[weight_.offset + u * inputs_ + i] += diff * in[n * inputs_ + i];
          in_diff[n * inputs_ + i] += diff * pass.parameters[weight_.offset + u * inputs_ + i];
        }
      }
    }
  }

 private:
  TensorSlot weight_;
  TensorSlot bias_;
  size_t inputs_;
  size_t units_;
  size_t steps_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeDense(const LayerPlan& plan) {
  return std::make_unique<Dense>(plan);
}

}  // namespace monsoon::reference
