// WeightedLayer: what convolution and dense layers share: their parameters in
// the formats that oneDNN chose, their gradients, and the passes. A subclass
// describes the primitives in its constructor.
#pragma once

#include <utility>

#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/packed_tensor.h"

namespace monsoon::cpu {

class WeightedLayer : public CpuLayer {
 public:
  void SetParameters(const float* parameters) override;
  void Forward(const StepKey* key) override { forward_.Run(); }
  void Backward(float* gradient) override;

 protected:
  // `weight_dims`: units first, as in the flat vector.
  WeightedLayer(const LayerArguments& arguments, dnnl::memory::dims weight_dims);

  // The weights in whatever format suits the primitive best.
  dnnl::memory::desc WeightDesc() const;
  // Empty where the layer has no bias.
  dnnl::memory::desc BiasDesc() const;
  static dnnl::prop_kind ForwardKind(const Context& context);
  // With the activation that is computed along.
  static dnnl::primitive_attr ForwardAttributes(const LayerArguments& arguments);

  // Each for a oneDNN primitive class P and its description; after
  // AllocateOutput, and the backward ones in training sequences only.
  template <typename P>
  void BindForward(const LayerArguments& arguments, const typename P::primitive_desc& desc);
  // The activation's too.
  template <typename P>
  void BindBackwardWeights(const LayerArguments& arguments, const typename P::primitive_desc& desc);
  template <typename P>
  void BindBackwardData(const LayerArguments& arguments, const typename P::primitive_desc& desc);

 private:
  bool has_bias() const { return bias_slot_.size > 0; }
  void BindActivationBackward(const LayerArguments& arguments);

  const TensorSlot weight_slot_;
  const TensorSlot bias_slot_;
  const dnnl::memory::dims weight_dims_;
  bool has_input_diff_ = false;
  AlignedFloats shared_diff_;  // of weights whose gradient is added (TensorSlot.shared)
  PackedTensor weight_;
  PackedTensor backward_weight_;  // the backward pass may want another format
  PackedTensor bias_;
  PackedTensor weight_diff_;
  PackedTensor bias_diff_;
  Call forward_;
  Call activation_backward_;
  Call backward_weights_;
  Call backward_data_;
};

template <typename P>
void WeightedLayer::BindForward(const LayerArguments& arguments,
                                const typename P::primitive_desc& desc) {
  weight_ = PackedTensor(arguments.context, desc.weights_desc());
  Call::Arguments values = {{DNNL_ARG_SRC, arguments.input.value},
                            {DNNL_ARG_WEIGHTS, weight_.packed()},
                            {DNNL_ARG_DST, output_.value}};
  if (has_bias()) {
    bias_ = PackedTensor(arguments.context, BiasDesc());
    values.emplace_back(DNNL_ARG_BIAS, bias_.packed());
  }
  forward_ = Call::Make<P>(arguments.context, desc, std::move(values));
}

template <typename P>
void WeightedLayer::BindBackwardWeights(const LayerArguments& arguments,
                                        const typename P::primitive_desc& desc) {
  BindActivationBackward(arguments);
  weight_diff_ = PackedTensor(arguments.context, desc.diff_weights_desc());
  Call::Arguments values = {{DNNL_ARG_SRC, arguments.input.value},
                            {DNNL_ARG_DIFF_DST, output_.diff},
                            {DNNL_ARG_DIFF_WEIGHTS, weight_diff_.packed()}};
  if (has_bias()) {
    bias_diff_ = PackedTensor(arguments.context, BiasDesc());
    values.emplace_back(DNNL_ARG_DIFF_BIAS, bias_diff_.packed());
  }
  backward_weights_ = Call::Make<P>(arguments.context, desc, std::move(values));
}

template <typename P>
void WeightedLayer::BindBackwardData(const LayerArguments& arguments,
                                     const typename P::primitive_desc& desc) {
  has_input_diff_ = true;
  backward_weight_ = PackedTensor(arguments.context, desc.weights_desc());
  backward_data_ = Call::Make<P>(arguments.context, desc,
                                 {{DNNL_ARG_DIFF_DST, output_.diff},
                                  {DNNL_ARG_WEIGHTS, backward_weight_.packed()},
                                  {DNNL_ARG_DIFF_SRC, arguments.input.diff}});
}

}  // namespace monsoon::cpu
