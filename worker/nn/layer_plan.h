// LayerPlan: one layer with all shapes and flat offsets filled in; what
// backends build a layer from. Plain C++, so that a backend builds without
// anything else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/layer_kinds.h"
#include "common/model/layer_settings.h"

namespace monsoon {

// A tensor's place in the flat vector; size 0: the layer has no such tensor.
struct TensorSlot {
  uint64_t offset = 0;
  uint64_t size = 0;
  // A later layer has it too and, in a backward pass, has written its part of the gradient:
  // this layer's is to be added.
  bool shared = false;
};

// One sample's values: [channels, height, width]; a vector of n features is [n, 1, 1], and a
// sequence of them has more steps. In memory [steps][channels][height][width].
struct Extent {
  uint64_t channels = 0;
  uint64_t height = 1;
  uint64_t width = 1;
  uint64_t steps = 1;
  bool is_image = false;  // of three dimensions, whatever they are
  uint64_t size() const { return steps * features(); }
  // Of one step.
  uint64_t features() const { return channels * height * width; }
};

// What a layer takes: 0 is the sample, i + 1 the output of layer i.
using ValueIndex = uint32_t;

struct LayerPlan : LayerSettings {
  LayerKind kind = LayerKind::kDense;
  std::string name;
  uint32_t index = 0;  // in the model, keys dropout masks
  std::vector<ValueIndex> inputs = {0};
  std::vector<Extent> input_extents;  // of each of them
  Extent input;                       // of the first
  Extent output;
  TensorSlot weight;  // conv: OIHW, dense: [units, inputs]
  TensorSlot bias;
  // All, in the order of the layer's design (common/model/layers).
  std::vector<TensorSlot> tensors;
};

}  // namespace monsoon
