// LayerPlan: one layer with all shapes and flat offsets filled in; what
// backends build a layer from. Plain C++, so that a backend builds without
// anything else.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon {

enum class LayerKind {
  kDense,
  kConv2d,
  kAveragePool2d,
  kMaxPool2d,
  kRelu,
  kSigmoid,
  kTanh,
  kDropout,
  kFlatten,
};

// A tensor's place in the flat vector; size 0: the layer has no such tensor.
struct TensorSlot {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// [channels, height, width]; a vector of n features is [n, 1, 1].
struct Extent {
  uint64_t channels = 0;
  uint64_t height = 1;
  uint64_t width = 1;
  uint64_t size() const { return channels * height * width; }
};

struct LayerPlan {
  LayerKind kind = LayerKind::kDense;
  std::string name;
  uint32_t index = 0;  // in the model, keys dropout masks
  Extent input;
  Extent output;
  uint64_t window = 0;  // conv kernel or pooling window, square
  uint64_t stride = 1;
  uint64_t padding = 0;
  double dropout_rate = 0;
  TensorSlot weight;  // conv: OIHW, dense: [units, inputs]
  TensorSlot bias;
};

}  // namespace monsoon
