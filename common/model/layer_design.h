// What a layer makes of its inputs' shapes: the output's shape, its tensors and settings. One
// Design function for each maker of layer_kinds.h, in layers/; this is the one place that reads a
// layer's message.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/layer_kinds.h"
#include "common/model/layer_settings.h"
#include "proto/model.pb.h"

namespace monsoon {

// Without the batch dimension: [features], [steps, features] or [channels, height, width].
using LayerTensorShape = std::vector<uint32_t>;

// Bounds that keep every product below far from overflow.
inline constexpr uint64_t kMaxLayerExtent = 1u << 24;
inline constexpr uint64_t kMaxLayoutFloats = 1ull << 40;

// Up to kMaxLayoutFloats.
uint64_t ElementCount(const LayerTensorShape& shape);
// "[3, 32, 32]".
std::string LayerShapeText(const LayerTensorShape& shape);

// A tensor of a layer, before it has a place.
struct WantedTensor {
  std::string suffix;  // "weight"
  LayerTensorShape shape;
  uint64_t fan_in = 0;
  uint64_t fan_out = 0;
  Initializer initializer;
  enum class Role {
    kWeight,
    kBias,       // what decay may leave out: biases, scales, shifts
    kStatistic,  // ModelTensor.STATISTIC
  };
  Role role = Role::kWeight;
  // A layer whose tensor of the same suffix this is.
  std::string tied_to;
};

struct LayerDesign {
  LayerTensorShape output;
  std::vector<WantedTensor> tensors;
  LayerSettings settings;
  // Settings that the shapes of output and tensors do not show, for ParameterLayout::Hash.
  std::vector<uint64_t> hashed;
};

struct LayerInputs {
  std::vector<LayerTensorShape> shapes;  // at least one
  // The shape of the tensor SUFFIX of an earlier layer; empty: there is none.
  std::function<LayerTensorShape(const std::string& layer, const std::string& suffix)> tensor_of;

  const LayerTensorShape& first() const { return shapes.front(); }
};

// InvalidArgument, without the layer's name, for what does not fit.
absl::StatusOr<LayerDesign> DesignLayer(const Layer& layer, const LayerInputs& inputs);

// Of a layer with a kind.
LayerKind KindOf(const Layer& layer);

#define MONSOON_LAYER_DESIGN(kind, proto_case, name, maker) \
  absl::StatusOr<LayerDesign> Design##maker(const Layer& layer, const LayerInputs& inputs);
MONSOON_LAYER_KINDS(MONSOON_LAYER_DESIGN)
#undef MONSOON_LAYER_DESIGN

}  // namespace monsoon
