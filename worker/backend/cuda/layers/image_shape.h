// An image layer's plan as the kernels take it.
#pragma once

#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/nn/layer_plan.h"

namespace monsoon::cuda {

inline ImageShape ToImageShape(const LayerPlan& plan) {
  const auto small = [](uint64_t value) { return static_cast<uint32_t>(value); };
  return ImageShape{
      small(plan.input.channels),  small(plan.input.height),  small(plan.input.width),
      small(plan.output.channels), small(plan.output.height), small(plan.output.width),
      small(plan.window),          small(plan.stride),        small(plan.padding)};
}

}  // namespace monsoon::cuda
