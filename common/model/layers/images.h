// What layers of images have in common.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/model/layer_design.h"

namespace monsoon {

inline uint32_t OrDefault(uint32_t value, uint32_t otherwise) {
  return value == 0 ? otherwise : value;
}

// `what` names the layer: "conv2d".
absl::Status CheckImage(const char* what, const LayerTensorShape& input);

// (extent + 2 padding - window) / stride + 1, or an error that says why not.
absl::StatusOr<uint32_t> WindowedExtent(uint32_t extent, uint32_t window, uint32_t stride,
                                        uint32_t padding);

}  // namespace monsoon
