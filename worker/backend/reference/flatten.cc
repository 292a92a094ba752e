#include <algorithm>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

// Changes no value in logical order.
class Flatten : public ReferenceLayer {
 public:
  void Forward(const Pass& /*pass*/, std::span<const double> in, std::span<double> out) override {
    std::ranges::copy(in, out.begin());
  }

  void Backward(const Pass& /*pass*/, std::span<const double> /*in*/,
                std::span<const double> /*out*/, std::span<const double> out_diff,
                std::span<double> in_diff, std::span<double> /*gradient*/) override {
    std::ranges::copy(out_diff, in_diff.begin());
  }
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeFlatten(const LayerPlan& /*plan*/) {
  return std::make_unique<Flatten>();
}

}  // namespace monsoon::reference
