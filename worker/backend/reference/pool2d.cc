#include <algorithm>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

class Pool2d : public ReferenceLayer {
 public:
  explicit Pool2d(const LayerPlan& plan) : plan_(plan) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t o = 0; o < out.size(); ++o) {
      if (plan_.kind == LayerKind::kMaxPool2d) {
        out[o] = in[Largest(o, in)];
        continue;
      }
      double sum = 0;
      ForWindow(o, [&](size_t i) { sum += in[i]; });
      out[o] = sum / Area();
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> out,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> /*gradient*/) override {
    std::fill(in_diff.begin(), in_diff.end(), 0.0);
    for (size_t o = 0; o < out_diff.size(); ++o) {
      if (plan_.kind == LayerKind::kMaxPool2d) {
        in_diff[Largest(o, in)] += out_diff[o];
      } else {
        ForWindow(o, [&](size_t i) { in_diff[i] += out_diff[o] / Area(); });
      }
    }
  }

 private:
  double Area() const { return static_cast<double>(plan_.window * plan_.window); }

  size_t Largest(size_t o, std::span<const double> in) const {
    size_t best = First(o);
    ForWindow(o, [&](size_t i) {
      if (in[i] > in[best]) {
        best = i;
      }
    });
    return best;
  }

  // The input index at the upper left of output o's window.
  size_t First(size_t o) const {
    const size_t x = o % plan_.output.width;
    const size_t y = o / plan_.output.width % plan_.output.height;
    const size_t plane = o / (plan_.output.width * plan_.output.height);
    return (plane * plan_.input.height + y * plan_.stride) * plan_.input.width + x * plan_.stride;
  }

  template <typename F>
  void ForWindow(size_t o, F f) const {
    for (size_t dy = 0; dy < plan_.window; ++dy) {
      for (size_t dx = 0; dx < plan_.window; ++dx) {
        f(First(o) + dy * plan_.input.width + dx);
      }
    }
  }

  LayerPlan plan_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakePool2d(const LayerPlan& plan) {
  return std::make_unique<Pool2d>(plan);
}

}  // namespace monsoon::reference
