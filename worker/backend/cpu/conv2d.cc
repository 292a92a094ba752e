#include "worker/backend/cpu/conv2d.h"

#include "worker/backend/cpu/activation.h"
#include "worker/backend/cpu/packed_tensor.h"

namespace monsoon::cpu {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;

memory::desc Any(const memory::dims& dims) {
  return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
}

class Conv2d : public CpuLayer {
 public:
  explicit Conv2d(const LayerArguments& arguments) : plan_(arguments.plan) {
    Context& context = arguments.context;
    const auto window = static_cast<memory::dim>(plan_.window);
    const auto filters = static_cast<memory::dim>(plan_.output.channels);
    weight_dims_ = {filters, static_cast<memory::dim>(plan_.input.channels), window, window};
    strides_.assign(2, static_cast<memory::dim>(plan_.stride));
    padding_.assign(2, static_cast<memory::dim>(plan_.padding));
    const convolution_forward::primitive_desc forward = MakeForward(arguments);
    if (!context.training()) {
      return;
    }
    if (arguments.activation) {
      activation_backward_ = MakeActivationBackward(context, *arguments.activation, output_.value,
                                                    output_.diff, output_.diff);
    }
    MakeBackwardWeights(arguments, forward);
    if (arguments.input.diff) {
      MakeBackwardData(arguments, forward);
    }
  }

  void SetParameters(const float* parameters) override {
    weight_.Pack(parameters + plan_.weight.offset);
    if (has_input_diff_) {
      backward_weight_.Pack(parameters + plan_.weight.offset);
    }
    if (plan_.bias.size > 0) {
      bias_.Pack(parameters + plan_.bias.offset);
    }
  }

  void Forward(const StepKey* key) override { forward_.Run(); }

  void Backward(float* gradient) override {
    activation_backward_.Run();
    weight_diff_.BindOutput(gradient + plan_.weight.offset);
    if (plan_.bias.size > 0) {
      bias_diff_.BindOutput(gradient + plan_.bias.offset);
    }
    backward_weights_.Run();
    weight_diff_.Unpack(gradient + plan_.weight.offset);
    if (plan_.bias.size > 0) {
      bias_diff_.Unpack(gradient + plan_.bias.offset);
    }
    backward_data_.Run();
  }

 private:
  // Empty where the layer has no bias.
  memory::desc BiasDesc() const {
    return plan_.bias.size == 0
               ? memory::desc()
               : memory::desc({weight_dims_[0]}, memory::data_type::f32, memory::format_tag::a);
  }

  convolution_forward::primitive_desc MakeForward(const LayerArguments& arguments) {
    Context& context = arguments.context;
    AllocateOutput(context, ChannelsLastDesc(context.examples(), plan_.output), plan_.output);
    dnnl::primitive_attr attributes = UserScratchpad();
    if (arguments.activation) {
      FuseActivation(*arguments.activation, attributes);
    }
    const convolution_forward::primitive_desc forward(
        {context.training() ? dnnl::prop_kind::forward_training
                            : dnnl::prop_kind::forward_inference,
         dnnl::algorithm::convolution_direct, arguments.input.value.get_desc(), Any(weight_dims_),
         BiasDesc(), output_.value.get_desc(), strides_, padding_, padding_},
        attributes, context.engine());
    weight_ = PackedTensor(context, forward.weights_desc());
    Call::Arguments values = {{DNNL_ARG_SRC, arguments.input.value},
                              {DNNL_ARG_WEIGHTS, weight_.packed()},
                              {DNNL_ARG_DST, output_.value}};
    if (plan_.bias.size > 0) {
      bias_ = PackedTensor(context, BiasDesc());
      values.emplace_back(DNNL_ARG_BIAS, bias_.packed());
    }
    forward_ = Call::Make<convolution_forward>(context, forward, std::move(values));
    return forward;
  }

  void MakeBackwardWeights(const LayerArguments& arguments,
                           const convolution_forward::primitive_desc& forward) {
    Context& context = arguments.context;
    const convolution_backward_weights::primitive_desc weights(
        {dnnl::algorithm::convolution_direct, arguments.input.value.get_desc(), Any(weight_dims_),
         BiasDesc(), output_.diff.get_desc(), strides_, padding_, padding_},
        UserScratchpad(), context.engine(), forward);
    weight_diff_ = PackedTensor(context, weights.diff_weights_desc());
    Call::Arguments values = {{DNNL_ARG_SRC, arguments.input.value},
                              {DNNL_ARG_DIFF_DST, output_.diff},
                              {DNNL_ARG_DIFF_WEIGHTS, weight_diff_.packed()}};
    if (plan_.bias.size > 0) {
      bias_diff_ = PackedTensor(context, BiasDesc());
      values.emplace_back(DNNL_ARG_DIFF_BIAS, bias_diff_.packed());
    }
    backward_weights_ =
        Call::Make<convolution_backward_weights>(context, weights, std::move(values));
  }

  void MakeBackwardData(const LayerArguments& arguments,
                        const convolution_forward::primitive_desc& forward) {
    Context& context = arguments.context;
    has_input_diff_ = true;
    const convolution_backward_data::primitive_desc data(
        {dnnl::algorithm::convolution_direct, arguments.input.diff.get_desc(), Any(weight_dims_),
         output_.diff.get_desc(), strides_, padding_, padding_},
        UserScratchpad(), context.engine(), forward);
    backward_weight_ = PackedTensor(context, data.weights_desc());
    backward_data_ =
        Call::Make<convolution_backward_data>(context, data,
                                              {{DNNL_ARG_DIFF_DST, output_.diff},
                                               {DNNL_ARG_WEIGHTS, backward_weight_.packed()},
                                               {DNNL_ARG_DIFF_SRC, arguments.input.diff}});
  }

  LayerPlan plan_;
  memory::dims weight_dims_;  // OIHW
  memory::dims strides_;
  memory::dims padding_;
  bool has_input_diff_ = false;
  PackedTensor weight_;
  PackedTensor backward_weight_;  // the backward pass wants another format
  PackedTensor bias_;
  PackedTensor weight_diff_;
  PackedTensor bias_diff_;
  Call forward_;
  Call activation_backward_;
  Call backward_weights_;
  Call backward_data_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeConv2d(const LayerArguments& arguments) {
  return std::make_unique<Conv2d>(arguments);
}

}  // namespace monsoon::cpu
