#include "common/model/initializer.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace monsoon {
namespace {

double UniformLimit(const TensorInfo& tensor) {
  switch (tensor.initializer.kind_case()) {
    case Initializer::kUniform:
      return tensor.initializer.uniform();
    case Initializer::kGlorotUniform:
      return std::sqrt(6.0 / static_cast<double>(tensor.fan_in + tensor.fan_out));
    default:
      return 1.0 / std::sqrt(static_cast<double>(tensor.fan_in));
  }
}

// Uniform(i) uses word i of its stream and Normal(i) words 2i and 2i + 1, so
// each has a stream of its own.
enum SubStream : uint32_t { kUniformStream = 0, kNormalStream = 1 };

// Values of the tensor at flat indices [begin, begin + out.size()), which lie
// inside it.
void FillTensor(const TensorInfo& tensor, uint64_t seed, uint64_t begin, std::span<float> out) {
  switch (tensor.initializer.kind_case()) {
    case Initializer::kConstant:
      std::fill(out.begin(), out.end(), static_cast<float>(tensor.initializer.constant()));
      return;
    case Initializer::kNormal:
    case Initializer::kHeNormal: {
      const double stddev = tensor.initializer.kind_case() == Initializer::kNormal
                                ? tensor.initializer.normal()
                                : std::sqrt(2.0 / static_cast<double>(tensor.fan_in));
      const PhiloxStream stream(seed, StreamKind::kInitializer, kNormalStream);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(stddev * stream.Normal(begin + i));
      }
      return;
    }
    default: {
      const double limit = UniformLimit(tensor);
      const PhiloxStream stream(seed, StreamKind::kInitializer, kUniformStream);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(limit * (2.0 * stream.Uniform(begin + i) - 1.0));
      }
      return;
    }
  }
}

}  // namespace

void Initialize(const ParameterLayout& layout, uint64_t seed, uint64_t begin,
                std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  const uint64_t end = begin + out.size();
  for (const TensorInfo& tensor : layout.tensors()) {
    const uint64_t from = std::max(begin, tensor.offset);
    const uint64_t to = std::min(end, tensor.offset + tensor.size);
    if (from < to) {
      FillTensor(tensor, seed, from, out.subspan(from - begin, to - from));
    }
  }
}

}  // namespace monsoon
