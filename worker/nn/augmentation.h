// What an augment layer makes of one image: a pure function of (seed, worker, step, layer, sample
// of the batch), shared by all backends. Plain C++.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/nn/layer_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon {

// Pixel (y, x) of the output is the input's (y + row, x + column), or under flip, which mirrors
// left and right, its (y + row, output width - 1 - x + column); 0 where the input has none.
struct Augmentation {
  int64_t row = 0;
  int64_t column = 0;
  bool flip = false;
};

// Of image `sample` of the batch. Null when evaluating, and keys of batch jobs: nothing is drawn,
// and the crop is the middle.
Augmentation DrawAugmentation(const LayerPlan& layer, const StepKey* key, size_t sample);

}  // namespace monsoon
