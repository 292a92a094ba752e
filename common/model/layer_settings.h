// LayerSettings: what a layer computes with besides its tensors, defaults filled in. Plain C++,
// so that a backend builds without anything else. A field has a meaning for the layers that it
// names (proto/model.proto), and its default for the others.
#pragma once

#include <cstdint>

namespace monsoon {

struct LayerSettings {
  uint64_t window = 0;  // convolution's kernel, pooling's or contrast's window, square
  uint64_t stride = 1;
  uint64_t padding = 0;
  double dropout_rate = 0;
  double epsilon = 0;   // of normalisations
  double momentum = 0;  // batch_norm
  double scale = 1;     // rescale
  double offset = 0;
  uint64_t units = 0;  // lstm
  uint64_t heads = 1;  // self_attention
  bool causal = false;
  bool sequences = false;  // lstm
  bool bidirectional = false;
  bool subtractive = false;  // local_contrast_norm
  bool divisive = false;
  uint64_t shift = 0;  // augment
  bool flip = false;
  uint64_t crop = 0;  // 0: none
};

}  // namespace monsoon
