#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model/layer_design.h"

namespace monsoon {

absl::StatusOr<LayerDesign> DesignDense(const Layer& layer, const LayerInputs& inputs) {
  const Dense& dense = layer.dense();
  const LayerTensorShape& input = inputs.first();
  if (input.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat("dense needs a flat input, got ",
                                                   LayerShapeText(input),
                                                   "; put a flatten layer before it"));
  }
  const uint32_t width = input.back();
  uint32_t units = dense.units();
  if (!dense.tied_to().empty()) {
    const LayerTensorShape tied = inputs.tensor_of(dense.tied_to(), "weight");
    if (tied.size() != 2 || tied[1] != width || (units != 0 && tied[0] != units)) {
      return absl::InvalidArgumentError(
          tied.empty() ? absl::StrCat("tied_to: \"", dense.tied_to(),
                                      "\" is no layer before it with a weight")
                       : absl::StrCat("tied_to: the weight of \"", dense.tied_to(), "\" is ",
                                      LayerShapeText(tied), ", not [units, ", width, "]"));
    }
    if (dense.has_weight_initializer()) {
      return absl::InvalidArgumentError("weight_initializer: the weight is another layer's");
    }
    units = tied[0];
  }
  if (units == 0 || units > kMaxLayerExtent) {
    return absl::InvalidArgumentError(absl::StrCat("units must lie in 1 .. ", kMaxLayerExtent));
  }
  LayerDesign design;
  design.output = input;
  design.output.back() = units;
  design.tensors.push_back({.suffix = "weight",
                            .shape = {units, width},
                            .fan_in = width,
                            .fan_out = units,
                            .initializer = dense.weight_initializer(),
                            .tied_to = dense.tied_to()});
  if (!dense.no_bias()) {
    design.tensors.push_back({.suffix = "bias",
                              .shape = {units},
                              .fan_in = width,
                              .fan_out = units,
                              .initializer = dense.bias_initializer(),
                              .role = WantedTensor::Role::kBias});
  }
  return design;
}

}  // namespace monsoon
