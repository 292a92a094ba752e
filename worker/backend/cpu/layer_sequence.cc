#include "worker/backend/cpu/layer_sequence.h"

#include "common/base/check.h"
#include "worker/backend/cpu/activation.h"
#include "worker/backend/cpu/conv2d.h"
#include "worker/backend/cpu/dense.h"
#include "worker/backend/cpu/dropout.h"
#include "worker/backend/cpu/flatten.h"
#include "worker/backend/cpu/onednn_api.h"
#include "worker/backend/cpu/pool2d.h"
#include "worker/backend/cpu/sample_blocked_conv2d.h"
#include "worker/backend/cpu/softmax_cross_entropy.h"

namespace monsoon::cpu {
namespace {

bool IsMatrix(const Port& port) { return DimsOf(port.value.get_desc()).size() == 2; }

// True where the input may be taken as [n, values] at once.
bool BeginsFlat(const NetworkPlan& plan) {
  const LayerKind first = plan.layers.front().kind;
  return first == LayerKind::kFlatten ||
         (first != LayerKind::kConv2d && plan.input.height == 1 && plan.input.width == 1);
}

}  // namespace

LayerSequence::LayerSequence(const NetworkPlan& plan, size_t examples, bool training, int threads)
    : context_(examples, training),
      threads_(threads),
      sample_blocked_(SuitsSampleBlocks(plan, examples, threads)) {
  Port port;
  port.value = dnnl::memory(
      BeginsFlat(plan) ? MatrixDesc(examples, plan.input.size()) : ImageDesc(examples, plan.input),
      context_.engine(), DNNL_MEMORY_NONE);
  port.extent = plan.input;
  input_ = port.value;
  if (sample_blocked_ || (!IsMatrix(port) && plan.input.channels > 1)) {
    port.value = context_.Allocate(sample_blocked_ ? SampleBlockedDesc(examples, plan.input)
                                                   : ChannelsLastDesc(examples, plan.input));
    repack_input_ = MakeReorder(context_, input_, port.value);
  }
  // Gradients need not go further back than the first layer with parameters.
  bool needs_diff = false;
  for (size_t at = 0; at < plan.layers.size();) {
    const bool has_parameters = plan.layers[at].weight.size > 0;
    if (plan.layers[at].kind == LayerKind::kFlatten && IsMatrix(port)) {
      ++at;
      continue;
    }
    if (!needs_diff) {
      port.diff = dnnl::memory();
    }
    layers_.push_back(MakeNext(plan, at, port));
    needs_diff = needs_diff || has_parameters;
    port = layers_.back()->output();
  }
  CHECK(IsMatrix(port));  // ParameterLayout: dense layers and the loss take flat values.
  output_ = port;
  outputs_ = examples * plan.classes;
  context_.FinishScratchpad();
}

std::unique_ptr<CpuLayer> LayerSequence::MakeNext(const NetworkPlan& plan, size_t& at,
                                                  const Port& input) {
  if (sample_blocked_ && plan.layers[at].kind == LayerKind::kConv2d) {
    return MakeSampleBlockedConv2d(context_, threads_, plan, at, input);
  }
  const LayerPlan& layer = plan.layers[at++];
  LayerArguments arguments{context_, layer, input, {}};
  if (layer.kind == LayerKind::kDense || layer.kind == LayerKind::kConv2d) {
    if (at < plan.layers.size() && IsActivation(plan.layers[at].kind)) {
      arguments.activation = plan.layers[at++].kind;
    }
    return layer.kind == LayerKind::kDense ? MakeDense(arguments) : MakeConv2d(arguments);
  }
  switch (layer.kind) {
    case LayerKind::kAveragePool2d:
    case LayerKind::kMaxPool2d:
      return MakePool2d(arguments);
    case LayerKind::kDropout:
      return MakeDropout(arguments);
    case LayerKind::kFlatten:
      return MakeFlatten(arguments);
    default:
      return MakeActivation(arguments);
  }
}

void LayerSequence::SetParameters(std::span<const float> parameters) {
  for (const auto& layer : layers_) {
    layer->SetParameters(parameters.data());
  }
}

void LayerSequence::Forward(const Batch& batch, const StepKey* key) {
  CHECK_EQ(batch.examples, context_.examples());
  input_.set_data_handle(const_cast<float*>(batch.inputs.data()));
  repack_input_.Run();
  for (const auto& layer : layers_) {
    layer->Forward(key);
  }
}

std::span<float> LayerSequence::Matrix(const dnnl::memory& memory) const {
  return {static_cast<float*>(memory.get_data_handle()), outputs_};
}

StepResult LayerSequence::LossAndGradient(const Batch& batch, const StepKey& key,
                                          std::span<float> gradient) {
  CHECK(context_.training());
  Forward(batch, &key);
  // Without a layer that has parameters, output_ may be the batch itself.
  const bool backward = static_cast<bool>(output_.diff);
  const EvaluationResult sums =
      SoftmaxCrossEntropy(Matrix(output_.value), std::span(batch.labels).first(batch.examples),
                          backward ? Matrix(output_.diff) : std::span<float>());
  for (size_t i = layers_.size(); i-- > 0 && backward;) {
    layers_[i]->Backward(gradient.data());
  }
  return StepResult{sums.loss_sum / static_cast<double>(batch.examples), sums.correct,
                    batch.examples};
}

EvaluationResult LayerSequence::Evaluate(const Batch& batch) {
  return SoftmaxCrossEntropy(Outputs(batch), std::span(batch.labels).first(batch.examples), {});
}

std::span<const float> LayerSequence::Outputs(const Batch& batch) {
  Forward(batch, nullptr);
  return Matrix(output_.value);
}

}  // namespace monsoon::cpu
