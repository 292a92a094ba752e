#include "worker/backend/cpu/layer_sequence.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/backend/cpu/activation.h"
#include "worker/backend/cpu/loss.h"
#include "worker/backend/cpu/onednn_api.h"
#include "worker/backend/cpu/sample_blocked_conv2d.h"
#include "worker/nn/buffer_plan.h"
#include "worker/nn/check_batch.h"

namespace monsoon::cpu {
namespace {

bool IsMatrix(const Port& port) { return DimsOf(port.value.get_desc()).size() == 2; }

// The layer behind plan.layers[at] that is computed with it, if there is one.
bool FusesNext(const NetworkPlan& plan, const std::vector<int>& uses, size_t at) {
  if (at + 1 >= plan.layers.size() || plan.layers[at + 1].inputs.front() != at + 1 ||
      uses[at + 1] != 1) {
    return false;
  }
  const LayerKind kind = plan.layers[at].kind, next = plan.layers[at + 1].kind;
  return (kind == LayerKind::kBatchNorm && next == LayerKind::kRelu) ||
         ((kind == LayerKind::kDense || kind == LayerKind::kConv2d) && IsActivation(next));
}

// Flattening what is flat in memory is nothing to do.
bool IsView(const NetworkPlan& plan, const std::vector<int>& uses, size_t at) {
  const LayerPlan& layer = plan.layers[at];
  return layer.kind == LayerKind::kFlatten && uses[layer.inputs.front()] == 1 &&
         ((!layer.input.is_image && layer.input.steps == 1) || (at == 0 && layer.input.is_image));
}

std::vector<bool> FindInPlace(const NetworkPlan& plan, const std::vector<int>& uses) {
  std::vector<bool> in_place(plan.layers.size(), false);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    in_place[i] = IsView(plan, uses, i) || (i > 0 && FusesNext(plan, uses, i - 1));
  }
  return in_place;
}

// Of the first layers' tensors, which share some with layers behind them.
uint64_t EndOfTensors(const NetworkPlan& plan, size_t layers) {
  uint64_t end = 0;
  for (size_t i = 0; i < layers; ++i) {
    for (const TensorSlot& tensor : plan.layers[i].tensors) {
      end = std::max(end, tensor.offset + tensor.size);
    }
  }
  return end;
}

}  // namespace

LayerSequence::LayerSequence(const NetworkPlan& plan, size_t examples, bool training, int threads)
    : context_(examples, training),
      threads_(threads),
      sample_blocked_(SuitsSampleBlocks(plan, examples, threads)),
      loss_(plan.loss),
      judge_(plan.loss),
      values_(plan.layers.size() + 1) {
  Port port;
  const std::vector<int> uses = CountUses(plan.layers);
  port.extent = IsView(plan, uses, 0) ? Extent{plan.input.size()} : plan.input;
  port.value = dnnl::memory(
      port.extent.is_image ? ImageDesc(examples, port.extent) : MatrixDesc(examples, port.extent),
      context_.engine(), DNNL_MEMORY_NONE);
  input_ = port.value;
  if (sample_blocked_ || (!IsMatrix(port) && plan.input.channels > 1)) {
    port.value = context_.Allocate(sample_blocked_ ? SampleBlockedDesc(examples, plan.input)
                                                   : ChannelsLastDesc(examples, plan.input));
    repack_input_ = MakeReorder(context_, input_, port.value);
  }
  values_.front() = port;
  MakeSteps(plan, uses);
  CHECK(IsMatrix(values_.back()));  // ParameterLayout: the loss takes no image.
  outputs_ = examples * plan.layers.back().output.size();
  context_.FinishSharing();
}

void LayerSequence::MakeSteps(const NetworkPlan& plan, const std::vector<int>& uses) {
  const BufferPlan buffers = PlanBuffers(plan.layers, FindInPlace(plan, uses));
  for (size_t at = 0; at < plan.layers.size();) {
    const LayerPlan& layer = plan.layers[at];
    if (IsView(plan, uses, at)) {
      values_[at + 1] = values_[layer.inputs.front()];
      values_[++at].extent = layer.output;
      continue;
    }
    const uint64_t final_from = EndOfTensors(plan, at);
    steps_.push_back(MakeStep(plan, buffers, uses, at));
    steps_.back().final_from = final_from;
    values_[at] = steps_.back().layer->output();
  }
}

Port LayerSequence::TakeInput(const NetworkPlan& plan, const BufferPlan& buffers, size_t layer,
                              size_t j, Step* step) {
  const ValueIndex index = plan.layers[layer].inputs[j];
  Port port = values_[index];
  if (buffers.gradient[index] == kNoBuffer) {
    port.diff = dnnl::memory();
  } else if (context_.training() && buffers.adds[layer][j]) {
    Addition addition{context_.Allocate(port.diff.get_desc()), port.diff,
                      port.diff.get_desc().get_size() / sizeof(float)};
    port.diff = addition.from;
    step->additions.push_back(std::move(addition));
  }
  return port;
}

LayerSequence::Step LayerSequence::MakeStep(const NetworkPlan& plan, const BufferPlan& buffers,
                                            const std::vector<int>& uses, size_t& at) {
  Step step;
  const LayerPlan& layer = plan.layers[at];
  LayerArguments arguments{.context = context_, .plan = layer, .threads = threads_};
  for (size_t j = 0; j < layer.inputs.size(); ++j) {
    arguments.inputs.push_back(TakeInput(plan, buffers, at, j, &step));
  }
  arguments.input = arguments.inputs.front();
  if (sample_blocked_ && layer.kind == LayerKind::kConv2d) {
    step.layer = MakeSampleBlockedConv2d(arguments, threads_, plan, at);
    return step;
  }
  if (FusesNext(plan, uses, at)) {
    arguments.activation = plan.layers[++at].kind;
  }
  ++at;
  if (!sample_blocked_) {
    // In training all values stay for the backward pass.
    arguments.value_buffer = context_.training() ? kNoBuffer : buffers.value[at];
    arguments.diff_buffer = buffers.gradient[at];
  }
  step.layer = MakeLayer(arguments);
  CHECK(step.layer != nullptr);
  return step;
}

void LayerSequence::SetParameters(std::span<const float> parameters) {
  for (const Step& step : steps_) {
    step.layer->SetParameters(parameters.data());
  }
}

void LayerSequence::Forward(const Batch& batch, const StepKey* key) {
  CHECK_EQ(batch.examples, context_.examples());
  input_.set_data_handle(const_cast<float*>(batch.inputs.data()));
  repack_input_.Run();
  for (const Step& step : steps_) {
    step.layer->Forward(key);
  }
}

std::span<float> LayerSequence::Matrix(const dnnl::memory& memory) const {
  return {Data(memory), outputs_};
}

StepResult LayerSequence::LossAndGradient(const Batch& batch, const StepKey& key,
                                          std::span<float> gradient,
                                          const Network::GradientReady& ready) {
  CHECK(context_.training());
  Forward(batch, &key);
  // Without a layer that has parameters, the output may be the batch itself.
  const bool backward = static_cast<bool>(values_.back().diff);
  const LossSums sums = ComputeLoss(loss_, Matrix(values_.back().value), TargetsOf(batch),
                                    backward ? Matrix(values_.back().diff) : std::span<float>());
  for (size_t i = steps_.size(); i-- > 0 && backward;) {
    steps_[i].layer->Backward(gradient.data());
    for (const Addition& addition : steps_[i].additions) {
      const float* const from = Data(addition.from);
      float* const to = Data(addition.to);
      for (size_t k = 0; k < addition.floats; ++k) {
        to[k] += from[k];
      }
    }
    if (ready != nullptr) {
      ready(steps_[i].final_from);
    }
  }
  return StepResult{.loss_mean = sums.loss / static_cast<double>(batch.examples),
                    .correct = sums.correct,
                    .examples = batch.examples,
                    .unjudged = sums.unjudged};
}

EvaluationResult LayerSequence::Evaluate(const Batch& batch) {
  const std::span<const float> outputs = Outputs(batch);
  const LossTargets targets = TargetsOf(batch);
  const LossSums sums = ComputeLoss(loss_, outputs, targets, {});
  return {.loss_sum = sums.loss,
          .correct = sums.correct,
          .examples = batch.examples,
          .unjudged = sums.unjudged,
          .judgement = judge_.Of(outputs, targets)};
}

std::span<const float> LayerSequence::Outputs(const Batch& batch) {
  Forward(batch, nullptr);
  return Matrix(values_.back().value);
}

}  // namespace monsoon::cpu
