#include "worker/downpour/gradient_clip.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace monsoon {

namespace {

// Calls `visit` with the parts of `gradient` between those of `left_out`.
template <typename Visit>
void ForEachOther(std::span<float> gradient, std::span<const Slice> left_out, Visit visit) {
  uint64_t begin = 0;
  for (const Slice& slice : left_out) {
    visit(gradient.subspan(begin, slice.begin - begin));
    begin = slice.end;
  }
  visit(gradient.subspan(begin));
}

}  // namespace

double ClipGradientNorm(std::span<float> gradient, double limit, std::span<const Slice> left_out) {
  if (!(limit > 0.0)) {
    return 0.0;
  }
  double sum = 0.0;
  ForEachOther(gradient, left_out, [&](std::span<float> part) {
    for (const float g : part) {
      sum += static_cast<double>(g) * g;
    }
  });
  const double norm = std::sqrt(sum);
  if (std::isfinite(norm) && norm > limit) {
    const float factor = static_cast<float>(limit / norm);
    ForEachOther(gradient, left_out, [&](std::span<float> part) {
      for (float& g : part) {
        g *= factor;
      }
    });
  }
  return norm;
}

void ScaleParts(std::span<float> gradient, std::span<const Slice> parts, double factor) {
  for (const Slice& part : parts) {
    for (float& g : gradient.subspan(part.begin, part.size())) {
      g *= static_cast<float>(factor);
    }
  }
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
