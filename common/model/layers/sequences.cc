#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model/layer_design.h"

namespace monsoon {
namespace {

absl::Status CheckSequence(const char* what, const LayerTensorShape& input) {
  if (input.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " needs an input [steps, features], got ", LayerShapeText(input)));
  }
  return absl::OkStatus();
}

Initializer Uniform(double limit) {
  Initializer initializer;
  initializer.set_uniform(limit);
  return initializer;
}

Initializer Normal(double deviation) {
  Initializer initializer;
  initializer.set_normal(deviation);
  return initializer;
}

}  // namespace

absl::StatusOr<LayerDesign> DesignEmbedding(const Layer& layer, const LayerInputs& inputs) {
  const Embedding& embedding = layer.embedding();
  const LayerTensorShape& input = inputs.first();
  if (input.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding needs an input [steps] of ids, got ", LayerShapeText(input)));
  }
  if (embedding.rows() == 0 || embedding.rows() > kMaxLayerExtent || embedding.columns() == 0 ||
      embedding.columns() > kMaxLayerExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows and columns must lie in 1 .. ", kMaxLayerExtent));
  }
  LayerDesign design;
  design.output = {input[0], embedding.columns()};
  design.tensors.push_back({.suffix = "weight",
                            .shape = {embedding.rows(), embedding.columns()},
                            .fan_in = embedding.columns(),
                            .fan_out = embedding.columns(),
                            .initializer = embedding.has_weight_initializer()
                                               ? embedding.weight_initializer()
                                               : Normal(1)});
  return design;
}

absl::StatusOr<LayerDesign> DesignPositionEmbedding(const Layer& layer, const LayerInputs& inputs) {
  constexpr double kDeviation = 0.02;
  const PositionEmbedding& position = layer.position_embedding();
  const LayerTensorShape& input = inputs.first();
  RETURN_IF_ERROR(CheckSequence("position_embedding", input));
  LayerDesign design;
  design.output = input;
  design.tensors.push_back({.suffix = "weight",
                            .shape = input,
                            .fan_in = input[1],
                            .fan_out = input[1],
                            .initializer = position.has_weight_initializer()
                                               ? position.weight_initializer()
                                               : Normal(kDeviation)});
  return design;
}

// Tensors: weight, recurrent, bias, and then backward_ ones.
absl::StatusOr<LayerDesign> DesignLstm(const Layer& layer, const LayerInputs& inputs) {
  const Lstm& lstm = layer.lstm();
  const LayerTensorShape& input = inputs.first();
  RETURN_IF_ERROR(CheckSequence("lstm", input));
  if (lstm.units() == 0 || lstm.units() > kMaxLayerExtent / 8) {
    return absl::InvalidArgumentError(absl::StrCat("units must lie in 1 .. ", kMaxLayerExtent / 8));
  }
  LayerDesign design;
  const uint32_t directions = lstm.bidirectional() ? 2 : 1;
  design.output = {directions * lstm.units()};
  if (lstm.sequences()) {
    design.output.insert(design.output.begin(), input[0]);
  }
  design.settings.units = lstm.units();
  design.settings.sequences = lstm.sequences();
  design.settings.bidirectional = lstm.bidirectional();
  const Initializer usual = Uniform(1.0 / std::sqrt(static_cast<double>(lstm.units())));
  const uint32_t gates = 4 * lstm.units();
  for (uint32_t direction = 0; direction < directions; ++direction) {
    const std::string prefix = direction == 0 ? "" : "backward_";
    design.tensors.push_back(
        {.suffix = prefix + "weight",
         .shape = {gates, input[1]},
         .fan_in = input[1],
         .fan_out = lstm.units(),
         .initializer = lstm.has_weight_initializer() ? lstm.weight_initializer() : usual});
    design.tensors.push_back(
        {.suffix = prefix + "recurrent",
         .shape = {gates, lstm.units()},
         .fan_in = lstm.units(),
         .fan_out = lstm.units(),
         .initializer = lstm.has_recurrent_initializer() ? lstm.recurrent_initializer() : usual});
    design.tensors.push_back(
        {.suffix = prefix + "bias",
         .shape = {gates},
         .fan_in = input[1],
         .fan_out = lstm.units(),
         .initializer = lstm.has_bias_initializer() ? lstm.bias_initializer() : usual,
         .role = WantedTensor::Role::kBias});
  }
  return design;
}

// Tensors: weight, out_weight, and with biases weight, bias, out_weight, out_bias.
absl::StatusOr<LayerDesign> DesignSelfAttention(const Layer& layer, const LayerInputs& inputs) {
  const SelfAttention& attention = layer.self_attention();
  const LayerTensorShape& input = inputs.first();
  RETURN_IF_ERROR(CheckSequence("self_attention", input));
  const uint32_t heads = attention.heads() == 0 ? 1 : attention.heads();
  const uint32_t features = input[1];
  if (features % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads: ", heads, " does not divide the ", features, " features"));
  }
  LayerDesign design;
  design.output = input;
  design.settings.heads = heads;
  design.settings.causal = attention.causal();
  design.hashed = {heads, attention.causal() ? 1u : 0u};
  const auto add = [&](const std::string& prefix, uint32_t units) {
    design.tensors.push_back({.suffix = prefix + "weight",
                              .shape = {units, features},
                              .fan_in = features,
                              .fan_out = units,
                              .initializer = attention.weight_initializer()});
    if (!attention.no_bias()) {
      Initializer zero;
      zero.set_constant(0);
      design.tensors.push_back({.suffix = prefix + "bias",
                                .shape = {units},
                                .fan_in = features,
                                .fan_out = units,
                                .initializer = zero,
                                .role = WantedTensor::Role::kBias});
    }
  };
  add("", 3 * features);
  add("out_", features);
  return design;
}

}  // namespace monsoon
