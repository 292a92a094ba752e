// LayerSequence: all layers of a network for one batch size, with their buffers.
//
// Images lie in memory in one of two ways:
// - blocked by samples, where our own convolution suits the model, the machine
//   and the batch (sample_blocked_conv2d.h);
// - else with the channels last: oneDNN's convolutions then need no padding of
//   channel counts such as 20 and 50. LeNet's second convolution, batch 128, one
//   thread (AVX-512): 20.4 ms for all three passes, against 29.2 blocked by 16
//   and padded to 32 and 64.
//
// An activation right behind a convolution or dense layer, which nobody else takes, is computed
// with it.
// Construction throws dnnl::error for what oneDNN cannot do.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "worker/backend/cpu/layer.h"
#include "worker/nn/network.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/test_figures.h"

namespace monsoon::cpu {

class LayerSequence {
 public:
  // `threads`: of the calls.
  LayerSequence(const NetworkPlan& plan, size_t examples, bool training, int threads);

  void SetParameters(std::span<const float> parameters);

  // `batch` has as many examples as the sequence. A training sequence's gradient is
  // the flat vector, of which the sequence writes the tensors, not the gaps. `ready`: as
  // Network::TellReady; may be null.
  StepResult LossAndGradient(const Batch& batch, const StepKey& key, std::span<float> gradient,
                             const Network::GradientReady& ready);
  EvaluationResult Evaluate(const Batch& batch);
  // The last outputs, [examples, steps, outputs], until the next call. Forward only.
  std::span<const float> Outputs(const Batch& batch);

 private:
  // A gradient for a value that a layer behind has put one for already: it is added.
  struct Addition {
    dnnl::memory from, to;
    size_t floats;
  };
  struct Step {
    std::unique_ptr<CpuLayer> layer;
    std::vector<Addition> additions;  // after its Backward
    uint64_t final_from = 0;  // of the gradient: no layer before it has a tensor that ends behind
  };

  // `uses`: CountUses.
  void MakeSteps(const NetworkPlan& plan, const std::vector<int>& uses);
  // The one at plan.layers[at] and, fused, what is behind it; moves `at`.
  Step MakeStep(const NetworkPlan& plan, const BufferPlan& buffers, const std::vector<int>& uses,
                size_t& at);
  // What the layer takes as its input j, and the memory that its gradient goes to.
  Port TakeInput(const NetworkPlan& plan, const BufferPlan& buffers, size_t layer, size_t j,
                 Step* step);
  void Forward(const Batch& batch, const StepKey* key);
  std::span<float> Matrix(const dnnl::memory& memory) const;

  Context context_;
  const int threads_;
  const bool sample_blocked_;  // images lie with their samples side by side
  dnnl::memory input_;         // of the caller's batch
  Call repack_input_;          // to the images' order, where that is another
  LossPlan loss_;
  Judge judge_;
  std::vector<Port> values_;  // as LayerPlan.inputs
  std::vector<Step> steps_;
  size_t outputs_ = 0;  // values of the last one
};

}  // namespace monsoon::cpu
