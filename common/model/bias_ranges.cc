#include "common/model/bias_ranges.h"

#include <algorithm>

namespace monsoon {

std::vector<Slice> BiasRanges(const ParameterLayout& layout, const Slice& range) {
  std::vector<Slice> biases;
  for (const LayerShape& layer : layout.layers()) {
    if (layer.bias < 0) {
      continue;
    }
    const TensorInfo& tensor = layout.tensors()[static_cast<size_t>(layer.bias)];
    const Slice part{std::max(tensor.offset, range.begin),
                     std::min(tensor.offset + tensor.size, range.end)};
    if (part.begin < part.end) {
      biases.push_back(part);
    }
  }
  std::ranges::sort(biases, {}, &Slice::begin);
  return biases;
}

}  // namespace monsoon
