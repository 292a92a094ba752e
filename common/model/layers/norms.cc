#include <bit>

#include "absl/strings/str_cat.h"
#include "common/model/layer_design.h"

namespace monsoon {
namespace {

constexpr double kEpsilon = 1e-5;

Initializer Constant(double value) {
  Initializer initializer;
  initializer.set_constant(value);
  return initializer;
}

WantedTensor Wanted(const char* suffix, uint32_t size, double value, WantedTensor::Role role) {
  return {.suffix = suffix,
          .shape = {size},
          .fan_in = size,
          .fan_out = size,
          .initializer = Constant(value),
          .role = role};
}

}  // namespace

// Tensors: weight, bias, mean, variance; without the first two under no_scale.
absl::StatusOr<LayerDesign> DesignBatchNorm(const Layer& layer, const LayerInputs& inputs) {
  constexpr double kMomentum = 0.1;
  const BatchNorm& norm = layer.batch_norm();
  const LayerTensorShape& input = inputs.first();
  if (input.size() == 2) {
    return absl::InvalidArgumentError(absl::StrCat("batch_norm needs an image or a vector, got ",
                                                   LayerShapeText(input), "; use layer_norm"));
  }
  LayerDesign design;
  design.output = input;
  design.settings.epsilon = norm.epsilon() == 0 ? kEpsilon : norm.epsilon();
  design.settings.momentum = norm.momentum() == 0 ? kMomentum : norm.momentum();
  if (!(design.settings.epsilon > 0) || !(design.settings.momentum > 0) ||
      !(design.settings.momentum <= 1)) {
    return absl::InvalidArgumentError("epsilon must be above 0, momentum in (0, 1]");
  }
  design.hashed = {std::bit_cast<uint64_t>(design.settings.epsilon),
                   std::bit_cast<uint64_t>(design.settings.momentum)};
  if (!norm.no_scale()) {
    design.tensors.push_back(Wanted("weight", input[0], 1, WantedTensor::Role::kBias));
    design.tensors.push_back(Wanted("bias", input[0], 0, WantedTensor::Role::kBias));
  }
  design.tensors.push_back(Wanted("mean", input[0], 0, WantedTensor::Role::kStatistic));
  design.tensors.push_back(Wanted("variance", input[0], 1, WantedTensor::Role::kStatistic));
  return design;
}

absl::StatusOr<LayerDesign> DesignLayerNorm(const Layer& layer, const LayerInputs& inputs) {
  const LayerNorm& norm = layer.layer_norm();
  const LayerTensorShape& input = inputs.first();
  if (input.size() == 3) {
    return absl::InvalidArgumentError(absl::StrCat("layer_norm needs a vector or a sequence, got ",
                                                   LayerShapeText(input),
                                                   "; use batch_norm or local_contrast_norm"));
  }
  LayerDesign design;
  design.output = input;
  design.settings.epsilon = norm.epsilon() == 0 ? kEpsilon : norm.epsilon();
  if (!(design.settings.epsilon > 0)) {
    return absl::InvalidArgumentError("epsilon must be above 0");
  }
  design.hashed = {std::bit_cast<uint64_t>(design.settings.epsilon)};
  design.tensors.push_back(Wanted("weight", input.back(), 1, WantedTensor::Role::kBias));
  if (!norm.no_shift()) {
    design.tensors.push_back(Wanted("bias", input.back(), 0, WantedTensor::Role::kBias));
  }
  return design;
}

}  // namespace monsoon
