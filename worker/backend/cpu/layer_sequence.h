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
// An activation right behind a convolution or dense layer is computed with it.
// Construction throws dnnl::error for what oneDNN cannot do.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "worker/backend/cpu/layer.h"
#include "worker/nn/network.h"
#include "worker/nn/network_plan.h"

namespace monsoon::cpu {

class LayerSequence {
 public:
  // `threads`: of the calls.
  LayerSequence(const NetworkPlan& plan, size_t examples, bool training, int threads);

  void SetParameters(std::span<const float> parameters);

  // `batch` has as many examples as the sequence. A training sequence's gradient is
  // the flat vector, of which the sequence writes the tensors, not the gaps.
  StepResult LossAndGradient(const Batch& batch, const StepKey& key, std::span<float> gradient);
  EvaluationResult Evaluate(const Batch& batch);
  // The last outputs, [examples, classes], until the next call. Forward only.
  std::span<const float> Outputs(const Batch& batch);

 private:
  void Forward(const Batch& batch, const StepKey* key);
  // The layer at plan.layers[at] and, fused, what is behind it; moves `at`.
  std::unique_ptr<CpuLayer> MakeNext(const NetworkPlan& plan, size_t& at, const Port& input);
  std::span<float> Matrix(const dnnl::memory& memory) const;

  Context context_;
  const int threads_;
  const bool sample_blocked_;  // images lie with their samples side by side
  dnnl::memory input_;         // of the caller's batch
  Call repack_input_;          // to the images' order, where that is another
  std::vector<std::unique_ptr<CpuLayer>> layers_;
  Port output_;
  size_t outputs_ = 0;  // values of output_
};

}  // namespace monsoon::cpu
