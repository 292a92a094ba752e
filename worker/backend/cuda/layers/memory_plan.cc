#include "worker/backend/cuda/layers/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "worker/backend/cuda/kernels/loss_ops.h"

namespace monsoon::cuda {

uint64_t TargetFloats(const LossPlan& loss) {
  const bool takes =
      loss.kind == LossKind::kBinaryCrossEntropy || loss.kind == LossKind::kMeanSquaredError;
  return takes ? loss.steps * loss.outputs : 0;
}

StagingLayout::StagingLayout(const EngineModel& model, uint64_t examples)
    : labels(Aligned(sizeof(StepControl))),
      weights(Aligned(labels + examples * model.loss.steps * sizeof(uint32_t))),
      targets(Aligned(weights + examples * model.loss.steps * sizeof(float))),
      sample_keys(Aligned(targets + examples * TargetFloats(model.loss) * sizeof(float))),
      inputs(Aligned(sample_keys + examples * sizeof(uint64_t))),
      bytes(Aligned(inputs + examples * model.input() * sizeof(float))) {}

uint64_t WidestLayer(const std::vector<LayerPlan>& layers) {
  uint64_t widest = 0;
  for (const LayerPlan& layer : layers) {
    widest = std::max(widest, layer.output.size());
    if (layer.kind == LayerKind::kLstm) {  // its gates
      widest = std::max(widest, layer.input.steps * 4 * layer.units);
    }
    for (const Extent& input : layer.input_extents) {
      widest = std::max(widest, input.size());
    }
  }
  return widest;
}

std::vector<bool> FindViews(const std::vector<LayerPlan>& layers) {
  const std::vector<int> uses = CountUses(layers);
  std::vector<bool> views;
  for (const LayerPlan& layer : layers) {
    views.push_back(layer.kind == LayerKind::kFlatten && uses[layer.inputs.front()] == 1);
  }
  return views;
}

BatchBuffers::BatchBuffers(const EngineModel& model, const BufferPlan& buffers,
                           const std::vector<std::unique_ptr<DeviceLayer>>& layers,
                           uint64_t examples)
    : rows(examples * model.loss.steps),
      staging(StagingLayout(model, examples).bytes),
      workspace(0),
      added(0),
      gradients(static_cast<size_t>(buffers.gradient_buffers)) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerPlan& plan = model.layers[i];
    const uint64_t output = examples * plan.output.size() * sizeof(float);
    outputs.push_back(layers[i] == nullptr ? 0 : output);
    kept.push_back(layers[i] == nullptr ? 0 : layers[i]->KeptBytes(examples));
    workspace = std::max(workspace, layers[i] == nullptr ? 0 : layers[i]->WorkspaceBytes(examples));
    uint64_t of_layer = 0;
    for (size_t j = 0; j < plan.inputs.size(); ++j) {
      const uint64_t bytes = examples * plan.input_extents[j].size() * sizeof(float);
      of_layer += buffers.adds[i][j] ? Aligned(bytes) : 0;
    }
    added = std::max(added, of_layer);
    if (const int buffer = buffers.gradient[i + 1]; buffer != kNoBuffer) {
      uint64_t& bytes = gradients[static_cast<size_t>(buffer)];
      bytes = std::max(bytes, output);
    }
  }
}

MemoryPlan PlanMemory(const EngineModel& model, uint64_t examples, Precision precision) {
  MemoryPlan plan;
  plan.parameters = 2 * Aligned(model.parameter_floats * sizeof(float));
  if (IsHalf(precision)) {
    plan.parameters += Aligned(model.parameter_floats * sizeof(uint16_t));
  }
  plan.products = Gemm::kWorkspaceBytes;
  std::vector<std::unique_ptr<DeviceLayer>> layers;
  for (const LayerPlan& layer : model.layers) {
    layers.push_back(MakeLayer(layer, precision));
  }
  const BatchBuffers batch(model, PlanBuffers(model.layers, FindViews(model.layers)), layers,
                           examples);
  plan.workspace = batch.workspace;
  plan.batch = batch.staging + sizeof(StepSums) + batch.added;
  plan.batch += batch.rows * (sizeof(Largest) + sizeof(RowSums) + sizeof(double));
  for (const std::vector<uint64_t>* sizes : {&batch.outputs, &batch.kept, &batch.gradients}) {
    plan.batch = std::accumulate(sizes->begin(), sizes->end(), plan.batch);
  }
  return plan;
}

}  // namespace monsoon::cuda
