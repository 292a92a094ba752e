#include "common/model/weight_matrices.h"

#include <set>

namespace monsoon {
namespace {

// [height, width, filters, channels, kernel, kernel]: the first three are outputs.
constexpr size_t kOutputsOfPlaces = 3;

// How many extents of its shape count outputs.
size_t OutputExtents(const Layer& layer) {
  return layer.has_locally_connected2d() ? kOutputsOfPlaces : 1;
}

bool IsTable(const Layer& layer) { return layer.has_embedding() || layer.has_position_embedding(); }

WeightMatrix MatrixOf(const TensorInfo& tensor, size_t output_extents) {
  WeightMatrix matrix{.tensor = tensor.name, .begin = tensor.offset, .rows = 1, .columns = 1};
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    (i < output_extents ? matrix.rows : matrix.columns) *= tensor.shape[i];
  }
  return matrix;
}

}  // namespace

std::vector<WeightMatrix> WeightMatrices(const Model& model, const ParameterLayout& layout) {
  std::vector<WeightMatrix> matrices;
  // A tensor is of the first layer that has it, which is before those that are tied to it.
  std::set<int> seen;
  for (size_t i = 0; i < layout.layers().size(); ++i) {
    const Layer& layer = model.layer(static_cast<int>(i));
    for (const int index : layout.layers()[i].tensors) {
      const TensorInfo& tensor = layout.tensors()[static_cast<size_t>(index)];
      if (seen.insert(index).second && !IsTable(layer) && !tensor.is_bias && !tensor.is_statistic &&
          tensor.shape.size() > 1) {
        matrices.push_back(MatrixOf(tensor, OutputExtents(layer)));
      }
    }
  }
  return matrices;
}

}  // namespace monsoon
