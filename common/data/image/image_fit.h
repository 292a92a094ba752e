// A picture in a model's size.
#pragma once

#include <cstdint>
#include <span>

#include "common/data/image/image_decoder.h"

namespace monsoon {

// Writes `image` to `out` as [channels, height, width] bytes:
//
//   colours   1 channel is (299 R + 587 G + 114 B) / 1000, 3 channels of grey are alike
//   cut       the largest rectangle of width : height in the middle, of whole pixels
//   scaling   a value is the mean over the area that it covers there, parts of pixels counted in
//             proportion; exact, then rounded half up
//
// `channels` is 1 or 3; the sizes are at least 1.
void FitImage(const Image& image, uint32_t channels, uint32_t height, uint32_t width,
              std::span<uint8_t> out);

}  // namespace monsoon
