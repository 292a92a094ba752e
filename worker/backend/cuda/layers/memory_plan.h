// What a network takes of the device's memory, by plain arithmetic, so that a
// limit is checked before anything is allocated.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/layers/layer.h"
#include "worker/nn/layer_plan.h"

namespace monsoon::cuda {

// Where the parts of a step's input lie in one block, copied at once.
struct StagingLayout {
  StagingLayout(uint64_t examples, uint64_t input);
  // StepControl at 0.
  uint64_t labels;       // uint32_t[examples]
  uint64_t sample_keys;  // uint64_t[examples]
  uint64_t inputs;       // float[examples * input]
  uint64_t bytes;
};

// Bytes on the device.
struct MemoryPlan {
  uint64_t parameters = 0;  // values, gradient, halves
  uint64_t batch = 0;       // staging, each layer's output, differences, loss
  uint64_t workspace = 0;   // of the layers, which take turns
  uint64_t products = 0;    // cuBLAS's
  uint64_t total() const { return parameters + batch + workspace + products; }
};

MemoryPlan PlanMemory(const std::vector<LayerPlan>& layers, uint64_t parameter_floats,
                      uint64_t examples, Precision precision);

// Floats of the widest layer's input or output, per example.
uint64_t WidestLayer(const std::vector<LayerPlan>& layers);

}  // namespace monsoon::cuda
