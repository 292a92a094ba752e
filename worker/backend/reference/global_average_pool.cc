#include <algorithm>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

// Of images over their pixels, of sequences over their steps.
class GlobalAveragePool : public ReferenceLayer {
 public:
  explicit GlobalAveragePool(const LayerPlan& plan) : plan_(plan) {}

  void Forward(const Pass& /*pass*/, std::span<const double> in, std::span<double> out) override {
    std::fill(out.begin(), out.end(), 0.0);
    for (size_t i = 0; i < in.size(); ++i) {
      out[OutputOf(i)] += in[i] / Count();
    }
  }

  void Backward(const Pass& /*pass*/, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> /*gradient*/) override {
    for (size_t i = 0; i < in.size(); ++i) {
      in_diff[i] = out_diff[OutputOf(i)] / Count();
    }
  }

 private:
  double Count() const { return static_cast<double>(plan_.input.size() / plan_.input.channels); }

  // [n, channels, height, width], or [n, steps, features].
  size_t OutputOf(size_t i) const {
    const size_t channels = plan_.input.channels;
    const size_t channel = plan_.input.is_image
                               ? i / (plan_.input.height * plan_.input.width) % channels
                               : i % channels;
    return i / plan_.input.size() * channels + channel;
  }

  const LayerPlan plan_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeGlobalAveragePool(const LayerPlan& plan) {
  return std::make_unique<GlobalAveragePool>(plan);
}

}  // namespace monsoon::reference
