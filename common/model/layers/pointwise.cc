// Layers that take values one by one, and those that only move them.
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/model/layer_design.h"

namespace monsoon {

absl::StatusOr<LayerDesign> DesignActivation(const Layer& /*layer*/, const LayerInputs& inputs) {
  LayerDesign design;
  design.output = inputs.first();
  return design;
}

absl::StatusOr<LayerDesign> DesignDropout(const Layer& layer, const LayerInputs& inputs) {
  const double rate = layer.dropout().rate();
  if (!(rate >= 0.0 && rate < 1.0)) {
    return absl::InvalidArgumentError("the dropout rate must lie in [0, 1)");
  }
  LayerDesign design;
  design.output = inputs.first();
  design.settings.dropout_rate = rate;
  design.hashed = {static_cast<uint64_t>(rate * 0x1p32)};
  return design;
}

absl::StatusOr<LayerDesign> DesignFlatten(const Layer& /*layer*/, const LayerInputs& inputs) {
  LayerDesign design;
  design.output = {static_cast<uint32_t>(ElementCount(inputs.first()))};
  return design;
}

absl::StatusOr<LayerDesign> DesignRescale(const Layer& layer, const LayerInputs& inputs) {
  const Rescale& rescale = layer.rescale();
  LayerDesign design;
  design.output = inputs.first();
  design.settings.scale = rescale.scale() == 0 ? 1 : rescale.scale();
  design.settings.offset = rescale.offset();
  design.hashed = {std::bit_cast<uint64_t>(design.settings.scale),
                   std::bit_cast<uint64_t>(design.settings.offset)};
  if (!std::isfinite(design.settings.scale) || !std::isfinite(design.settings.offset)) {
    return absl::InvalidArgumentError("scale and offset must be finite");
  }
  return design;
}

absl::StatusOr<LayerDesign> DesignJoin(const Layer& layer, const LayerInputs& inputs) {
  const LayerTensorShape& first = inputs.first();
  if (inputs.shapes.size() < 2) {
    return absl::InvalidArgumentError("it joins at least two inputs; name them with `input`");
  }
  LayerDesign design;
  design.output = first;
  // Images are joined by channels, which come first, all others by what comes last.
  const size_t joined = first.size() == 3 ? 0 : first.size() - 1;
  uint64_t sum = first[joined];
  for (size_t i = 1; i < inputs.shapes.size(); ++i) {
    LayerTensorShape shape = inputs.shapes[i];
    if (layer.has_concat() && shape.size() == first.size()) {
      sum += shape[joined];
      shape[joined] = first[joined];
    }
    if (shape != first) {
      return absl::InvalidArgumentError(absl::StrCat("inputs of shapes ", LayerShapeText(first),
                                                     " and ", LayerShapeText(inputs.shapes[i]),
                                                     " cannot be joined"));
    }
  }
  if (layer.has_concat()) {
    if (sum > kMaxLayerExtent) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxLayerExtent, " values"));
    }
    design.output[joined] = static_cast<uint32_t>(sum);
  }
  return design;
}

}  // namespace monsoon
