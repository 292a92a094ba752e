#include <algorithm>
#include <cmath>
#include <numeric>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

// With p a pixel, c a channel, and w(p, q) the window's weight of the neighbour q at p, in each of
// the channels:
//   v(c, p) = x(c, p) - sum over (d, q) of w(p, q) x(d, q), or x(c, p)
//   s(p) = sqrt(sum over (d, q) of w(p, q) v(d, q)^2)
//   y(c, p) = v(c, p) / max(mean of s, s(p), epsilon), or v(c, p)
class LocalContrastNorm : public ReferenceLayer {
 public:
  explicit LocalContrastNorm(const LayerPlan& plan)
      : plan_(plan), pixels_(plan.input.height * plan.input.width) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t n = 0; n < pass.examples; ++n) {
      const size_t size = plan_.input.size();
      const Image image = Compute(in.subspan(n * size, size));
      for (size_t i = 0; i < size; ++i) {
        out[n * size + i] = image.v[i] / (plan_.divisive ? image.Divisor(i % pixels_) : 1.0);
      }
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> /*gradient*/) override {
    for (size_t n = 0; n < pass.examples; ++n) {
      const size_t size = plan_.input.size();
      const Image image = Compute(in.subspan(n * size, size));
      std::vector<double> diff(out_diff.begin() + static_cast<ptrdiff_t>(n * size),
                               out_diff.begin() + static_cast<ptrdiff_t>((n + 1) * size));
      if (plan_.divisive) {
        DivisionBackward(image, diff);
      }
      if (plan_.subtractive) {
        SubtractionBackward(diff);
      }
      std::copy(diff.begin(), diff.end(), in_diff.begin() + static_cast<ptrdiff_t>(n * size));
    }
  }

 private:
  struct Image {
    std::vector<double> v;
    std::vector<double> s;  // of each pixel
    double mean = 0;        // of s
    double epsilon = 0;

    double Divisor(size_t pixel) const { return std::max({mean, s[pixel], epsilon}); }
  };

  Image Compute(std::span<const double> in) const {
    Image image{.v = {in.begin(), in.end()}, .epsilon = plan_.epsilon};
    for (size_t p = 0; p < pixels_ && plan_.subtractive; ++p) {
      double mean = 0;
      ForWindow(p, [&](size_t q, double w) {
        for (size_t d = 0; d < plan_.input.channels; ++d) {
          mean += w * in[d * pixels_ + q];
        }
      });
      for (size_t c = 0; c < plan_.input.channels; ++c) {
        image.v[c * pixels_ + p] -= mean;
      }
    }
    for (size_t p = 0; p < pixels_; ++p) {
      double sum = 0;
      ForWindow(p, [&](size_t q, double w) {
        for (size_t d = 0; d < plan_.input.channels; ++d) {
          sum += w * image.v[d * pixels_ + q] * image.v[d * pixels_ + q];
        }
      });
      image.s.push_back(std::sqrt(sum));
    }
    image.mean =
        std::accumulate(image.s.begin(), image.s.end(), 0.0) / static_cast<double>(pixels_);
    return image;
  }

  // From dloss/dy in `diff` to dloss/dv.
  void DivisionBackward(const Image& image, std::vector<double>& diff) const {
    std::vector<double> s_diff(pixels_, 0.0);
    for (size_t i = 0; i < diff.size(); ++i) {
      const size_t p = i % pixels_;
      const double divisor = image.Divisor(p);
      const double divisor_diff = -diff[i] * image.v[i] / (divisor * divisor);
      diff[i] /= divisor;
      if (divisor == image.epsilon) {
        continue;
      }
      if (divisor == image.mean) {
        for (double& each : s_diff) {
          each += divisor_diff / static_cast<double>(pixels_);
        }
      } else {
        s_diff[p] += divisor_diff;
      }
    }
    for (size_t p = 0; p < pixels_; ++p) {
      if (image.s[p] == 0) {
        continue;  // all v of the window are zero: the smallest slope there is
      }
      ForWindow(p, [&](size_t q, double w) {
        for (size_t d = 0; d < plan_.input.channels; ++d) {
          diff[d * pixels_ + q] += s_diff[p] / image.s[p] * w * image.v[d * pixels_ + q];
        }
      });
    }
  }

  // From dloss/dv in `diff` to dloss/dx.
  void SubtractionBackward(std::vector<double>& diff) const {
    const std::vector<double> v_diff = diff;
    for (size_t p = 0; p < pixels_; ++p) {
      double mean_diff = 0;
      for (size_t c = 0; c < plan_.input.channels; ++c) {
        mean_diff -= v_diff[c * pixels_ + p];
      }
      ForWindow(p, [&](size_t q, double w) {
        for (size_t d = 0; d < plan_.input.channels; ++d) {
          diff[d * pixels_ + q] += w * mean_diff;
        }
      });
    }
  }

  // f(q, w(p, q)) for each q that the window at p has inside the image.
  template <typename F>
  void ForWindow(size_t p, F f) const {
    const auto height = static_cast<int64_t>(plan_.input.height);
    const auto width = static_cast<int64_t>(plan_.input.width);
    const int64_t y = static_cast<int64_t>(p) / width, x = static_cast<int64_t>(p) % width;
    const auto half = static_cast<int64_t>(plan_.window / 2);
    const double deviation = static_cast<double>(plan_.window) / 4;
    std::vector<std::pair<size_t, double>> neighbours;
    double sum = 0;
    for (int64_t qy = std::max<int64_t>(0, y - half); qy <= std::min(height - 1, y + half); ++qy) {
      for (int64_t qx = std::max<int64_t>(0, x - half); qx <= std::min(width - 1, x + half); ++qx) {
        const auto squared = static_cast<double>((qy - y) * (qy - y) + (qx - x) * (qx - x));
        neighbours.emplace_back(qy * width + qx, std::exp(-squared / (2 * deviation * deviation)));
        sum += neighbours.back().second * static_cast<double>(plan_.input.channels);
      }
    }
    for (const auto& [q, weight] : neighbours) {
      f(q, weight / sum);
    }
  }

  const LayerPlan plan_;
  const size_t pixels_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeLocalContrastNorm(const LayerPlan& plan) {
  return std::make_unique<LocalContrastNorm>(plan);
}

}  // namespace monsoon::reference
