#include "worker/backend/cuda/layers/memory_plan.h"

#include <algorithm>

#include "worker/backend/cuda/kernels/loss_ops.h"

namespace monsoon::cuda {

StagingLayout::StagingLayout(uint64_t examples, uint64_t input)
    : labels(Aligned(sizeof(StepControl))),
      sample_keys(Aligned(labels + examples * sizeof(uint32_t))),
      inputs(Aligned(sample_keys + examples * sizeof(uint64_t))),
      bytes(Aligned(inputs + examples * input * sizeof(float))) {}

uint64_t WidestLayer(const std::vector<LayerPlan>& layers) {
  uint64_t widest = 0;
  for (const LayerPlan& layer : layers) {
    widest = std::max({widest, layer.input.size(), layer.output.size()});
  }
  return widest;
}

MemoryPlan PlanMemory(const std::vector<LayerPlan>& layers, uint64_t parameter_floats,
                      uint64_t examples, Precision precision) {
  MemoryPlan plan;
  plan.parameters = 2 * Aligned(parameter_floats * sizeof(float));
  if (IsHalf(precision)) {
    plan.parameters += Aligned(parameter_floats * sizeof(uint16_t));
  }
  plan.products = Gemm::kWorkspaceBytes;
  plan.batch = StagingLayout(examples, layers.front().input.size()).bytes + sizeof(StepSums);
  for (const LayerPlan& layer : layers) {
    if (layer.kind != LayerKind::kFlatten) {
      plan.batch += examples * layer.output.size() * sizeof(float);
    }
    if (const auto made = MakeLayer(layer, precision); made != nullptr) {
      plan.workspace = std::max(plan.workspace, made->WorkspaceBytes(examples));
    }
  }
  plan.batch += 2 * examples * WidestLayer(layers) * sizeof(float);
  plan.batch += examples * (sizeof(Largest) + sizeof(float) + sizeof(double));
  return plan;
}

}  // namespace monsoon::cuda
