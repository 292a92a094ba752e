#include "common/model/bias_ranges.h"

#include <algorithm>

namespace monsoon {

namespace {

// What `range` has of the tensors for which `wanted` holds.
template <typename Wanted>
std::vector<Slice> PartsOf(const ParameterLayout& layout, const Slice& range, Wanted wanted) {
  std::vector<Slice> parts;
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorInfo& tensor = layout.tensors()[i];
    const Slice part{std::max(tensor.offset, range.begin),
                     std::min(tensor.offset + tensor.size, range.end)};
    if (part.begin < part.end && wanted(i)) {
      parts.push_back(part);
    }
  }
  return parts;
}

}  // namespace

std::vector<Slice> BiasRanges(const ParameterLayout& layout, const Slice& range) {
  return PartsOf(layout, range, [&](size_t i) {
    const TensorInfo& tensor = layout.tensors()[i];
    return layout.layers().empty() ? !tensor.is_statistic && tensor.shape.size() <= 1
                                   : tensor.is_bias;
  });
}

std::vector<Slice> StatisticRanges(const ParameterLayout& layout, const Slice& range) {
  return PartsOf(layout, range, [&](size_t i) { return layout.tensors()[i].is_statistic; });
}

}  // namespace monsoon
