// What a network takes of the device's memory, by plain arithmetic, so that a
// limit is checked before anything is allocated.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/backend/cuda/kernels/precision.h"
#include "worker/backend/cuda/layers/layer.h"
#include "worker/nn/buffer_plan.h"
#include "worker/nn/layer_plan.h"
#include "worker/nn/loss_plan.h"

namespace monsoon::cuda {

// What an engine runs: of a NetworkPlan (worker/nn/network_plan.h) what it needs. Layers lie
// without overlap in a flat vector, each behind those that it takes.
struct EngineModel {
  std::vector<LayerPlan> layers;
  LossPlan loss;
  uint64_t parameter_floats = 0;

  uint64_t input() const { return layers.front().input.size(); }  // values of a sample
};

// Floats of targets for each sample; 0: the loss takes labels alone.
uint64_t TargetFloats(const LossPlan& loss);

// Where the parts of a step's input lie in one block, copied at once.
struct StagingLayout {
  StagingLayout(const EngineModel& model, uint64_t examples);
  // StepControl at 0.
  uint64_t labels;       // uint32_t[examples, steps]
  uint64_t weights;      // float[examples, steps]
  uint64_t targets;      // float[examples, TargetFloats]
  uint64_t sample_keys;  // uint64_t[examples]
  uint64_t inputs;       // float[examples, input]
  uint64_t bytes;
};

// Layers whose output is their input, and whose gradients are too: buffer_plan.h's in_place.
std::vector<bool> FindViews(const std::vector<LayerPlan>& layers);

// Bytes of each buffer of a batch; 0: none.
struct BatchBuffers {
  BatchBuffers(const EngineModel& model, const BufferPlan& buffers,
               const std::vector<std::unique_ptr<DeviceLayer>>& layers, uint64_t examples);
  uint64_t rows;  // of the loss
  uint64_t staging;
  uint64_t workspace;               // of the layers, which take turns
  uint64_t added;                   // gradients that are added to others
  std::vector<uint64_t> outputs;    // of each layer
  std::vector<uint64_t> kept;       // of each layer
  std::vector<uint64_t> gradients;  // of BufferPlan.gradient
};

// Bytes on the device.
struct MemoryPlan {
  uint64_t parameters = 0;  // values, gradient, halves
  uint64_t batch = 0;       // staging, each layer's output, gradients, loss
  uint64_t workspace = 0;   // of the layers, which take turns
  uint64_t products = 0;    // cuBLAS's
  uint64_t total() const { return parameters + batch + workspace + products; }
};

MemoryPlan PlanMemory(const EngineModel& model, uint64_t examples, Precision precision);

// Floats of the widest layer's input or output, per example.
uint64_t WidestLayer(const std::vector<LayerPlan>& layers);

}  // namespace monsoon::cuda
