#include <algorithm>

#include "worker/backend/reference/layer.h"
#include "worker/nn/dropout_mask.h"

namespace monsoon::reference {
namespace {

class Dropout : public ReferenceLayer {
 public:
  explicit Dropout(const LayerPlan& plan) : index_(plan.index), rate_(plan.dropout_rate) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    if (pass.training == nullptr) {
      std::copy(in.begin(), in.end(), out.begin());
      return;
    }
    mask_.resize(in.size());
    FillDropoutMask(*pass.training, index_, rate_, mask_);
    for (size_t i = 0; i < in.size(); ++i) {
      out[i] = in[i] * mask_[i];
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> /*gradient*/) override {
    for (size_t i = 0; i < in.size(); ++i) {
      in_diff[i] = out_diff[i] * mask_[i];
    }
  }

 private:
  uint32_t index_;
  double rate_;
  std::vector<float> mask_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeDropout(const LayerPlan& plan) {
  return std::make_unique<Dropout>(plan);
}

}  // namespace monsoon::reference
