// Other images of the same, drawn as worker/nn/augmentation.cc does.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/elementwise.h"
#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/backend/cuda/kernels/philox.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// Pixel (y, x) of the output is the input's (y + row, x + column), or under flip its (y + row,
// output width - 1 - x + column); 0 where the input has none.
struct Placement {
  int32_t row;
  int32_t column;
  uint32_t flip;
};

// Count: examples.
struct DrawPlacement {
  ImageShape shape;
  uint32_t layer;
  uint32_t shift;
  bool flip;
  bool draws;  // else the middle
  const StepControl* control;
  Placement* placements;
  MONSOON_PORTABLE static int32_t Below(uint32_t bits, uint32_t bound) {
    return static_cast<int32_t>((static_cast<uint64_t>(bits) * bound) >> 32);
  }
  MONSOON_PORTABLE void operator()(uint32_t n) const {
    const uint32_t rows = shape.height - shape.out_height;
    const uint32_t columns = shape.width - shape.out_width;
    if (!draws) {
      placements[n] = {static_cast<int32_t>(rows / 2), static_cast<int32_t>(columns / 2), 0};
      return;
    }
    const uint64_t stream = kAugmentationStream | layer;
    const PhiloxBlock bits = Philox(control->augmentation_key, stream, 2 * uint64_t{n});
    const PhiloxBlock more = Philox(control->augmentation_key, stream, 2 * uint64_t{n} + 1);
    const int32_t back = static_cast<int32_t>(shift);
    placements[n] = {Below(bits.word[0], rows + 1) + Below(bits.word[2], 2 * shift + 1) - back,
                     Below(bits.word[1], columns + 1) + Below(bits.word[3], 2 * shift + 1) - back,
                     flip ? more.word[0] >> 31 : 0};
  }
};

// Element i of [n, c, height, width], taken apart.
struct PixelOf {
  Divisor width;
  Divisor height;
  Divisor channels;
  struct Pixel {
    uint32_t n, plane, y, x;
  };
  MONSOON_PORTABLE Pixel operator()(uint32_t i) const {
    const uint32_t line = width.Quotient(i);
    const uint32_t plane = height.Quotient(line);
    return {channels.Quotient(plane), plane, line - plane * height.value(),
            i - line * width.value()};
  }
};

// Count: outputs.
struct AugmentForward {
  ImageShape shape;
  PixelOf pixel_of;  // of the output
  const Placement* placements;
  const float* in;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const PixelOf::Pixel pixel = pixel_of(i);
    const Placement placed = placements[pixel.n];
    // Those before the image become large.
    const uint32_t y = pixel.y + static_cast<uint32_t>(placed.row);
    const uint32_t x = (placed.flip != 0 ? shape.out_width - 1 - pixel.x : pixel.x) +
                       static_cast<uint32_t>(placed.column);
    out[i] = y < shape.height && x < shape.width
                 ? in[(pixel.plane * shape.height + y) * shape.width + x]
                 : 0.0f;
  }
};

// Each input pixel is one of the output or none. Count: inputs.
struct AugmentBackward {
  ImageShape shape;
  PixelOf pixel_of;  // of the input
  const Placement* placements;
  const float* out_diff;
  float* in_diff;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const PixelOf::Pixel pixel = pixel_of(i);
    const Placement placed = placements[pixel.n];
    const uint32_t y = pixel.y - static_cast<uint32_t>(placed.row);
    const uint32_t x = pixel.x - static_cast<uint32_t>(placed.column);
    const uint32_t to = placed.flip != 0 ? shape.out_width - 1 - x : x;
    in_diff[i] = y < shape.out_height && x < shape.out_width
                     ? out_diff[(pixel.plane * shape.out_height + y) * shape.out_width + to]
                     : 0.0f;
  }
};

}  // namespace monsoon::cuda
