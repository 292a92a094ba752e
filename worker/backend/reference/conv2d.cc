#include <algorithm>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

// A convolution, or with `local` filters and biases of each pixel's own.
class Conv2d : public ReferenceLayer {
 public:
  Conv2d(const LayerPlan& plan, bool local) : plan_(plan), local_(local) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t o = 0; o < out.size(); ++o) {
      out[o] = plan_.bias.size == 0 ? 0.0 : pass.parameters[BiasOf(o)];
    }
    ForEachProduct(pass.examples,
                   [&](size_t o, size_t i, size_t w) { out[o] += pass.parameters[w] * in[i]; });
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> gradient) override {
    std::fill(in_diff.begin(), in_diff.end(), 0.0);
    if (plan_.bias.size != 0) {
      for (size_t o = 0; o < out_diff.size(); ++o) {
        gradient[BiasOf(o)] += out_diff[o];
      }
    }
    ForEachProduct(pass.examples, [&](size_t o, size_t i, size_t w) {
      gradient[w] += out_diff[o] * in[i];
      in_diff[i] += out_diff[o] * pass.parameters[w];
    });
  }

 private:
  // The flat index of output o's bias; local ones have the output's shape.
  size_t BiasOf(size_t o) const {
    const Extent& out = plan_.output;
    return plan_.bias.offset +
           (local_ ? o % out.size() : o / (out.height * out.width) % out.channels);
  }

  // f(output index, input index, flat weight index) for each product that the
  // definition sums; positions in the zero border are left out.
  template <typename F>
  void ForEachProduct(size_t examples, F f) const {
    const Extent& in = plan_.input;
    const Extent& out = plan_.output;
    for (size_t n = 0; n < examples; ++n)
      for (size_t k = 0; k < out.channels; ++k)
        for (size_t y = 0; y < out.height; ++y)
          for (size_t x = 0; x < out.width; ++x)
            for (size_t c = 0; c < in.channels; ++c)
              for (size_t dy = 0; dy < plan_.window; ++dy)
                for (size_t dx = 0; dx < plan_.window; ++dx) {
                  // Unsigned wrap-around makes positions before the image large.
                  const size_t iy = y * plan_.stride + dy - plan_.padding;
                  const size_t ix = x * plan_.stride + dx - plan_.padding;
                  if (iy >= in.height || ix >= in.width) {
                    continue;
                  }
                  // Local: [height, width, filters, channels, kernel, kernel].
                  const size_t filter = local_ ? (y * out.width + x) * out.channels + k : k;
                  f(((n * out.channels + k) * out.height + y) * out.width + x,
                    ((n * in.channels + c) * in.height + iy) * in.width + ix,
                    plan_.weight.offset +
                        ((filter * in.channels + c) * plan_.window + dy) * plan_.window + dx);
                }
  }

  const LayerPlan plan_;
  const bool local_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeConv2d(const LayerPlan& plan) {
  return std::make_unique<Conv2d>(plan, false);
}

std::unique_ptr<ReferenceLayer> MakeLocallyConnected2d(const LayerPlan& plan) {
  return std::make_unique<Conv2d>(plan, true);
}

}  // namespace monsoon::reference
