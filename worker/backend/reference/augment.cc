#include <algorithm>

#include "worker/backend/reference/layer.h"
#include "worker/nn/augmentation.h"

namespace monsoon::reference {
namespace {

class Augment : public ReferenceLayer {
 public:
  explicit Augment(const LayerPlan& plan) : plan_(plan) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    std::fill(out.begin(), out.end(), 0.0);
    ForEachPixel(pass, [&](size_t o, size_t i) { out[o] = in[i]; });
  }

  void Backward(const Pass& pass, std::span<const double> /*in*/, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> /*gradient*/) override {
    std::fill(in_diff.begin(), in_diff.end(), 0.0);
    ForEachPixel(pass, [&](size_t o, size_t i) { in_diff[i] += out_diff[o]; });
  }

 private:
  // f(output index, input index) where there is an input.
  template <typename F>
  void ForEachPixel(const Pass& pass, F f) const {
    const Extent& in = plan_.input;
    const Extent& out = plan_.output;
    for (size_t n = 0; n < pass.examples; ++n) {
      const Augmentation drawn = DrawAugmentation(plan_, pass.training, n);
      for (size_t c = 0; c < out.channels; ++c) {
        for (size_t y = 0; y < out.height; ++y) {
          for (size_t x = 0; x < out.width; ++x) {
            // Those before the image become large.
            const size_t iy = y + static_cast<size_t>(drawn.row);
            const size_t ix =
                (drawn.flip ? out.width - 1 - x : x) + static_cast<size_t>(drawn.column);
            if (iy < in.height && ix < in.width) {
              f(((n * out.channels + c) * out.height + y) * out.width + x,
                ((n * in.channels + c) * in.height + iy) * in.width + ix);
            }
          }
        }
      }
    }
  }

  const LayerPlan plan_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeAugment(const LayerPlan& plan) {
  return std::make_unique<Augment>(plan);
}

}  // namespace monsoon::reference
