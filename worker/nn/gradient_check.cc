#include "worker/nn/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace monsoon {

GradientError CheckGradient(const std::function<double(std::span<const double>)>& loss,
                            std::span<const double> at, std::span<const double> gradient,
                            const std::function<bool(size_t)>& use, double step) {
  std::vector<double> point(at.begin(), at.end());
  GradientError worst;
  for (size_t i = 0; i < at.size(); ++i) {
    if (!use(i)) {
      continue;
    }
    point[i] = at[i] + step;
    const double above = loss(point);
    point[i] = at[i] - step;
    const double below = loss(point);
    point[i] = at[i];
    const double numeric = (above - below) / (2 * step);
    const double size = std::max({std::abs(gradient[i]), std::abs(numeric), kGradientFloor});
    const double relative = std::abs(gradient[i] - numeric) / size;
    // Written so that a NaN is the worst of all.
    if (!(relative <= worst.relative)) {
      worst = GradientError{relative, i, gradient[i], numeric};
      if (std::isnan(relative)) {
        return worst;
      }
    }
  }
  return worst;
}

}  // namespace monsoon
