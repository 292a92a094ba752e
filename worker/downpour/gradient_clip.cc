#include "worker/downpour/gradient_clip.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace monsoon {

double ClipGradientNorm(std::span<float> gradient, double limit) {
  if (!(limit > 0.0)) {
    return 0.0;
  }
  double sum = 0.0;
  for (const float g : gradient) {
    sum += static_cast<double>(g) * g;
  }
  const double norm = std::sqrt(sum);
  if (std::isfinite(norm) && norm > limit) {
    const float factor = static_cast<float>(limit / norm);
    for (float& g : gradient) {
      g *= factor;
    }
  }
  return norm;
}

std::string NameFirstNonFinite(const ParameterLayout& layout, std::span<const float> values) {
  for (const TensorInfo& tensor : layout.tensors()) {
    for (uint64_t i = 0; i < tensor.size; ++i) {
      if (!std::isfinite(values[tensor.offset + i])) {
        return absl::StrCat(tensor.name, "[", i, "]");
      }
    }
  }
  return {};
}

}  // namespace monsoon
