#include "common/optimizer/tensor_ranges.h"

#include <algorithm>
#include <optional>

#include "common/model/bias_ranges.h"
#include "common/optimizer/optimizer_groups.h"

namespace monsoon {
namespace {

std::vector<Slice> Clip(const std::vector<Slice>& parts, const Slice& range) {
  std::vector<Slice> within;
  auto part = std::ranges::upper_bound(parts, range.begin, {}, &Slice::end);
  for (; part != parts.end() && part->begin < range.end; ++part) {
    within.push_back({std::max(part->begin, range.begin), std::min(part->end, range.end)});
  }
  return within;
}

}  // namespace

TensorRanges TensorRanges::Of(const ParameterLayout& layout, const Optimizer& optimizer,
                              const Slice& range) {
  TensorRanges all;
  if (optimizer.weight_decay_weights_only()) {
    all.biases = BiasRanges(layout, range);
  }
  all.statistics = StatisticRanges(layout, range);
  all.groups.resize(static_cast<size_t>(optimizer.group_size()));
  for (const TensorInfo& tensor : layout.tensors()) {
    const std::optional<int> group =
        tensor.is_statistic ? std::nullopt : GroupOf(optimizer, tensor.name);
    if (group.has_value()) {
      all.groups[static_cast<size_t>(*group)].push_back(
          {tensor.offset, tensor.offset + tensor.size});
    }
  }
  return all.Within(range);
}

TensorRanges TensorRanges::OfModel(const Model& model, const ParameterLayout& layout,
                                   const Optimizer& optimizer) {
  TensorRanges all = Of(layout, optimizer, {0, layout.size()});
  if (optimizer.has_muon()) {
    all.matrices = WeightMatrices(model, layout);
    std::erase_if(all.matrices, [&](const WeightMatrix& matrix) {
      return GroupOf(optimizer, matrix.tensor).has_value();
    });
  }
  return all;
}

TensorRanges TensorRanges::Within(const Slice& range) const {
  TensorRanges within{Clip(biases, range), Clip(statistics, range), {}, {}};
  for (const std::vector<Slice>& group : groups) {
    within.groups.push_back(Clip(group, range));
  }
  while (!within.groups.empty() && within.groups.back().empty()) {
    within.groups.pop_back();
  }
  return within;
}

}  // namespace monsoon
