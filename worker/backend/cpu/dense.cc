#include "worker/backend/cpu/dense.h"

#include "worker/backend/cpu/activation.h"
#include "worker/backend/cpu/packed_tensor.h"

namespace monsoon::cpu {
namespace {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;
using dnnl::memory;

class Dense : public CpuLayer {
 public:
  explicit Dense(const LayerArguments& arguments)
      : weight_slot_(arguments.plan.weight),
        bias_slot_(arguments.plan.bias),
        weight_dims_{static_cast<memory::dim>(arguments.plan.output.size()),
                     static_cast<memory::dim>(arguments.plan.input.size())},
        bias_dims_{weight_dims_[0]} {
    Context& context = arguments.context;
    AllocateOutput(context, MatrixDesc(context.examples(), weight_dims_[0]), arguments.plan.output);
    const inner_product_forward::primitive_desc forward = MakeForward(arguments);
    if (!context.training()) {
      return;
    }
    if (arguments.activation) {
      activation_backward_ = MakeActivationBackward(context, *arguments.activation, output_.value,
                                                    output_.diff, output_.diff);
    }
    MakeBackward(arguments, forward);
  }

  void SetParameters(const float* parameters) override {
    weight_.Pack(parameters + weight_slot_.offset);
    if (bias_slot_.size > 0) {
      bias_.Pack(parameters + bias_slot_.offset);
    }
    if (has_input_diff_) {
      backward_weight_.Pack(parameters + weight_slot_.offset);
    }
  }

  void Forward(const StepKey* key) override { forward_.Run(); }

  void Backward(float* gradient) override {
    activation_backward_.Run();
    weight_diff_.BindOutput(gradient + weight_slot_.offset);
    if (bias_slot_.size > 0) {
      bias_diff_.BindOutput(gradient + bias_slot_.offset);
    }
    backward_weights_.Run();
    weight_diff_.Unpack(gradient + weight_slot_.offset);
    if (bias_slot_.size > 0) {
      bias_diff_.Unpack(gradient + bias_slot_.offset);
    }
    backward_data_.Run();
  }

 private:
  memory::desc AnyWeights() const {
    return memory::desc(weight_dims_, memory::data_type::f32, memory::format_tag::any);
  }
  // Empty where the layer has no bias.
  memory::desc BiasDesc() const {
    return bias_slot_.size == 0
               ? memory::desc()
               : memory::desc(bias_dims_, memory::data_type::f32, memory::format_tag::a);
  }

  inner_product_forward::primitive_desc MakeForward(const LayerArguments& arguments) {
    Context& context = arguments.context;
    dnnl::primitive_attr attributes = UserScratchpad();
    if (arguments.activation) {
      FuseActivation(*arguments.activation, attributes);
    }
    const inner_product_forward::primitive_desc forward(
        {context.training() ? dnnl::prop_kind::forward_training
                            : dnnl::prop_kind::forward_inference,
         arguments.input.value.get_desc(), AnyWeights(), BiasDesc(), output_.value.get_desc()},
        attributes, context.engine());
    weight_ = PackedTensor(context, forward.weights_desc());
    Call::Arguments values = {{DNNL_ARG_SRC, arguments.input.value},
                              {DNNL_ARG_WEIGHTS, weight_.packed()},
                              {DNNL_ARG_DST, output_.value}};
    if (bias_slot_.size > 0) {
      bias_ = PackedTensor(context, BiasDesc());
      values.emplace_back(DNNL_ARG_BIAS, bias_.packed());
    }
    forward_ = Call::Make<inner_product_forward>(context, forward, std::move(values));
    return forward;
  }

  void MakeBackward(const LayerArguments& arguments,
                    const inner_product_forward::primitive_desc& forward) {
    Context& context = arguments.context;
    const memory::desc input = arguments.input.value.get_desc();
    const inner_product_backward_weights::primitive_desc weights(
        {input, AnyWeights(), BiasDesc(), output_.diff.get_desc()}, UserScratchpad(),
        context.engine(), forward);
    weight_diff_ = PackedTensor(context, weights.diff_weights_desc());
    Call::Arguments values = {{DNNL_ARG_SRC, arguments.input.value},
                              {DNNL_ARG_DIFF_DST, output_.diff},
                              {DNNL_ARG_DIFF_WEIGHTS, weight_diff_.packed()}};
    if (bias_slot_.size > 0) {
      bias_diff_ = PackedTensor(context, BiasDesc());
      values.emplace_back(DNNL_ARG_DIFF_BIAS, bias_diff_.packed());
    }
    backward_weights_ =
        Call::Make<inner_product_backward_weights>(context, weights, std::move(values));
    has_input_diff_ = static_cast<bool>(arguments.input.diff);
    if (!has_input_diff_) {
      return;
    }
    const inner_product_backward_data::primitive_desc data(
        {input, AnyWeights(), output_.diff.get_desc()}, UserScratchpad(), context.engine(),
        forward);
    backward_weight_ = PackedTensor(context, data.weights_desc());
    backward_data_ =
        Call::Make<inner_product_backward_data>(context, data,
                                                {{DNNL_ARG_DIFF_DST, output_.diff},
                                                 {DNNL_ARG_WEIGHTS, backward_weight_.packed()},
                                                 {DNNL_ARG_DIFF_SRC, arguments.input.diff}});
  }

  TensorSlot weight_slot_;
  TensorSlot bias_slot_;
  memory::dims weight_dims_;
  memory::dims bias_dims_;
  bool has_input_diff_ = false;
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

}  // namespace

std::unique_ptr<CpuLayer> MakeDense(const LayerArguments& arguments) {
  return std::make_unique<Dense>(arguments);
}

}  // namespace monsoon::cpu
