#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

class Rescale : public ReferenceLayer {
 public:
  explicit Rescale(const LayerPlan& plan) : scale_(plan.scale), offset_(plan.offset) {}

  void Forward(const Pass& /*pass*/, std::span<const double> in, std::span<double> out) override {
    for (size_t i = 0; i < in.size(); ++i) {
      out[i] = scale_ * in[i] + offset_;
    }
  }

  void Backward(const Pass& /*pass*/, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> /*gradient*/) override {
    for (size_t i = 0; i < in.size(); ++i) {
      in_diff[i] = scale_ * out_diff[i];
    }
  }

 private:
  const double scale_;
  const double offset_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeRescale(const LayerPlan& plan) {
  return std::make_unique<Rescale>(plan);
}

}  // namespace monsoon::reference
