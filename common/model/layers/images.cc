#include "common/model/layers/images.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// Of a pool { window stride }.
absl::StatusOr<LayerDesign> DesignPool(const Pool2d& pool, const LayerTensorShape& input) {
  RETURN_IF_ERROR(CheckImage("pooling", input));
  const uint32_t stride = OrDefault(pool.stride(), pool.window());
  ASSIGN_OR_RETURN(const uint32_t height, WindowedExtent(input[1], pool.window(), stride, 0));
  ASSIGN_OR_RETURN(const uint32_t width, WindowedExtent(input[2], pool.window(), stride, 0));
  LayerDesign design;
  design.output = {input[0], height, width};
  design.settings.window = pool.window();
  design.settings.stride = stride;
  design.hashed = {pool.window(), stride};
  return design;
}

}  // namespace

absl::Status CheckImage(const char* what, const LayerTensorShape& input) {
  if (input.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " needs an input [channels, height, width], got ", LayerShapeText(input),
                     input.size() == 2 ? "; images of one channel are [1, height, width]" : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> WindowedExtent(uint32_t extent, uint32_t window, uint32_t stride,
                                        uint32_t padding) {
  if (window == 0) {
    return absl::InvalidArgumentError("the window must be at least 1");
  }
  if (stride > kMaxLayerExtent) {
    return absl::InvalidArgumentError(absl::StrCat("a stride of ", stride, " is over 2^24"));
  }
  const uint64_t padded = uint64_t{extent} + 2 * uint64_t{padding};
  if (window > padded) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a window of ", window, " does not fit an input of ", padded, " (padding included)"));
  }
  return static_cast<uint32_t>((padded - window) / stride + 1);
}

absl::StatusOr<LayerDesign> DesignConv2d(const Layer& layer, const LayerInputs& inputs) {
  const Conv2d& conv = layer.conv2d();
  const LayerTensorShape& input = inputs.first();
  RETURN_IF_ERROR(CheckImage("conv2d", input));
  if (conv.filters() == 0 || conv.filters() > kMaxLayerExtent || conv.kernel() > kMaxLayerExtent ||
      conv.padding() > kMaxLayerExtent) {
    return absl::InvalidArgumentError("filters must be at least 1, and no setting over 2^24");
  }
  const uint32_t stride = OrDefault(conv.stride(), 1);
  ASSIGN_OR_RETURN(const uint32_t height,
                   WindowedExtent(input[1], conv.kernel(), stride, conv.padding()));
  ASSIGN_OR_RETURN(const uint32_t width,
                   WindowedExtent(input[2], conv.kernel(), stride, conv.padding()));
  const uint64_t area = uint64_t{conv.kernel()} * conv.kernel();
  const uint64_t fan_in = input[0] * area, fan_out = conv.filters() * area;
  LayerDesign design;
  design.output = {conv.filters(), height, width};
  design.settings.window = conv.kernel();
  design.settings.stride = stride;
  design.settings.padding = conv.padding();
  design.hashed = {stride, conv.padding()};
  design.tensors.push_back({.suffix = "weight",
                            .shape = {conv.filters(), input[0], conv.kernel(), conv.kernel()},
                            .fan_in = fan_in,
                            .fan_out = fan_out,
                            .initializer = conv.weight_initializer()});
  if (!conv.no_bias()) {
    design.tensors.push_back({.suffix = "bias",
                              .shape = {conv.filters()},
                              .fan_in = fan_in,
                              .fan_out = fan_out,
                              .initializer = conv.bias_initializer(),
                              .role = WantedTensor::Role::kBias});
  }
  return design;
}

absl::StatusOr<LayerDesign> DesignLocallyConnected2d(const Layer& layer,
                                                     const LayerInputs& inputs) {
  const LocallyConnected2d& local = layer.locally_connected2d();
  const LayerTensorShape& input = inputs.first();
  RETURN_IF_ERROR(CheckImage("locally_connected2d", input));
  if (local.filters() == 0 || local.filters() > kMaxLayerExtent ||
      local.kernel() > kMaxLayerExtent || local.padding() > kMaxLayerExtent) {
    return absl::InvalidArgumentError("filters must be at least 1, and no setting over 2^24");
  }
  const uint32_t stride = OrDefault(local.stride(), 1);
  ASSIGN_OR_RETURN(const uint32_t height,
                   WindowedExtent(input[1], local.kernel(), stride, local.padding()));
  ASSIGN_OR_RETURN(const uint32_t width,
                   WindowedExtent(input[2], local.kernel(), stride, local.padding()));
  const uint64_t area = uint64_t{local.kernel()} * local.kernel();
  const uint64_t fan_in = input[0] * area, fan_out = local.filters() * area;
  LayerDesign design;
  design.output = {local.filters(), height, width};
  design.settings.window = local.kernel();
  design.settings.stride = stride;
  design.settings.padding = local.padding();
  design.hashed = {stride, local.padding()};
  design.tensors.push_back(
      {.suffix = "weight",
       .shape = {height, width, local.filters(), input[0], local.kernel(), local.kernel()},
       .fan_in = fan_in,
       .fan_out = fan_out,
       .initializer = local.weight_initializer()});
  if (!local.no_bias()) {
    design.tensors.push_back({.suffix = "bias",
                              .shape = design.output,
                              .fan_in = fan_in,
                              .fan_out = fan_out,
                              .initializer = local.bias_initializer(),
                              .role = WantedTensor::Role::kBias});
  }
  return design;
}

absl::StatusOr<LayerDesign> DesignPool2d(const Layer& layer, const LayerInputs& inputs) {
  return DesignPool(layer.has_max_pool2d() ? layer.max_pool2d() : layer.average_pool2d(),
                    inputs.first());
}

absl::StatusOr<LayerDesign> DesignGlobalAveragePool(const Layer& /*layer*/,
                                                    const LayerInputs& inputs) {
  const LayerTensorShape& input = inputs.first();
  LayerDesign design;
  if (input.size() == 3) {
    design.output = {input[0]};
  } else if (input.size() == 2) {
    design.output = {input[1]};
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "global_average_pool needs an image or a sequence, got ", LayerShapeText(input)));
  }
  return design;
}

absl::StatusOr<LayerDesign> DesignLocalContrastNorm(const Layer& layer, const LayerInputs& inputs) {
  constexpr uint32_t kWindow = 9;
  constexpr double kEpsilon = 1e-4;
  const LocalContrastNorm& norm = layer.local_contrast_norm();
  RETURN_IF_ERROR(CheckImage("local_contrast_norm", inputs.first()));
  LayerDesign design;
  design.output = inputs.first();
  design.settings.window = OrDefault(norm.window(), kWindow);
  if (design.settings.window < 3 || design.settings.window % 2 == 0 ||
      design.settings.window > kMaxLayerExtent) {
    return absl::InvalidArgumentError("the window must be odd and at least 3");
  }
  design.settings.epsilon = norm.epsilon() == 0 ? kEpsilon : norm.epsilon();
  if (!(design.settings.epsilon > 0)) {
    return absl::InvalidArgumentError("epsilon must be above 0");
  }
  design.settings.subtractive = norm.mode() != LocalContrastNorm::DIVISIVE;
  design.settings.divisive = norm.mode() != LocalContrastNorm::SUBTRACTIVE;
  design.hashed = {design.settings.window, static_cast<uint64_t>(norm.mode()),
                   std::bit_cast<uint64_t>(design.settings.epsilon)};
  return design;
}

absl::StatusOr<LayerDesign> DesignAugment(const Layer& layer, const LayerInputs& inputs) {
  const Augment& augment = layer.augment();
  const LayerTensorShape& input = inputs.first();
  RETURN_IF_ERROR(CheckImage("augment", input));
  LayerDesign design;
  design.output = input;
  design.settings.shift = augment.shift();
  design.settings.flip = augment.flip();
  design.settings.crop = augment.crop();
  if (augment.crop() > std::min(input[1], input[2])) {
    return absl::InvalidArgumentError(absl::StrCat(
        "crop: ", augment.crop(), " pixels do not fit an input ", LayerShapeText(input)));
  }
  if (augment.shift() >= std::min(input[1], input[2])) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shift: by ", augment.shift(), " pixels nothing is left of ", LayerShapeText(input)));
  }
  if (augment.crop() != 0) {
    design.output = {input[0], augment.crop(), augment.crop()};
  }
  design.hashed = {augment.shift(), augment.flip() ? 1u : 0u};
  return design;
}

}  // namespace monsoon
