#include "worker/backend/cpu/weighted_layer.h"

#include "worker/backend/cpu/activation.h"
#include "worker/backend/cpu/active_loops.h"

namespace monsoon::cpu {

using dnnl::memory;

WeightedLayer::WeightedLayer(const LayerArguments& arguments, memory::dims weight_dims)
    : weight_slot_(arguments.plan.weight),
      bias_slot_(arguments.plan.bias),
      weight_dims_(std::move(weight_dims)) {
  if (weight_slot_.shared) {
    shared_diff_ = AlignedFloats::NanFilled(weight_slot_.size);
  }
}

void WeightedLayer::SetParameters(const float* parameters) {
  weight_.Pack(parameters + weight_slot_.offset);
  if (has_bias()) {
    bias_.Pack(parameters + bias_slot_.offset);
  }
  if (has_input_diff_) {
    backward_weight_.Pack(parameters + weight_slot_.offset);
  }
}

void WeightedLayer::Backward(float* gradient) {
  activation_backward_.Run();
  float* const weights = weight_slot_.shared ? shared_diff_.data() : gradient + weight_slot_.offset;
  weight_diff_.BindOutput(weights);
  if (has_bias()) {
    bias_diff_.BindOutput(gradient + bias_slot_.offset);
  }
  backward_weights_.Run();
  weight_diff_.Unpack(weights);
  if (weight_slot_.shared) {
    float* const sum = gradient + weight_slot_.offset;
    ActiveSequenceLoops().add(weight_slot_.size, sum, weights, sum);
  }
  if (has_bias()) {
    bias_diff_.Unpack(gradient + bias_slot_.offset);
  }
  backward_data_.Run();
}

memory::desc WeightedLayer::WeightDesc() const {
  return memory::desc(weight_dims_, memory::data_type::f32, memory::format_tag::any);
}

memory::desc WeightedLayer::BiasDesc() const {
  return has_bias() ? memory::desc({weight_dims_[0]}, memory::data_type::f32, memory::format_tag::a)
                    : memory::desc();
}

dnnl::prop_kind WeightedLayer::ForwardKind(const Context& context) {
  return context.training() ? dnnl::prop_kind::forward_training
                            : dnnl::prop_kind::forward_inference;
}

dnnl::primitive_attr WeightedLayer::ForwardAttributes(const LayerArguments& arguments) {
  dnnl::primitive_attr attributes = UserScratchpad();
  if (arguments.activation) {
    FuseActivation(*arguments.activation, attributes);
  }
  return attributes;
}

void WeightedLayer::BindActivationBackward(const LayerArguments& arguments) {
  if (arguments.activation) {
    activation_backward_ = MakeActivationBackward(arguments.context, *arguments.activation,
                                                  output_.value, output_.diff, output_.diff);
  }
}

}  // namespace monsoon::cpu
