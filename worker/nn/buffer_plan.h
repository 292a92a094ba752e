// BufferPlan: which values of a network, and which gradients of them, may share memory, from the
// order in which the layers run. One plan serves all backends: they make one buffer for each
// number, of the most floats that what it holds takes.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/nn/layer_plan.h"

namespace monsoon {

inline constexpr int kNoBuffer = -1;

// Values are indexed as LayerPlan.inputs: 0 is the sample, i + 1 the output of layer i.
struct BufferPlan {
  // Of each value, the buffer it lies in while evaluating; of the sample none. (In training every
  // value stays for the backward pass.)
  std::vector<int> value;
  // Of each value, the buffer of the loss's gradient for it; none where nobody needs it: no layer
  // before it has parameters.
  std::vector<int> gradient;
  // Of each layer and input, whether its gradient is added to what a layer behind it, which takes
  // the same value, has put there; such a gradient needs memory of its own first.
  std::vector<std::vector<bool>> adds;
  int value_buffers = 0;
  int gradient_buffers = 0;
};

// Layers stand behind all that they take; the last one's output goes to the loss. `in_place`, of
// each layer, or empty: its output lies where its input does, which nobody else takes, and so do
// their gradients.
BufferPlan PlanBuffers(const std::vector<LayerPlan>& layers,
                       const std::vector<bool>& in_place = {});

// How many layers, and the loss, take each value.
std::vector<int> CountUses(const std::vector<LayerPlan>& layers);

}  // namespace monsoon
