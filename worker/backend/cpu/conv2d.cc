#include "worker/backend/cpu/conv2d.h"

#include "worker/backend/cpu/activation.h"
#include "worker/backend/cpu/packed_tensor.h"

namespace monsoon::cpu {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;

// What AVX-512 holds; a multiple of what narrower vectors hold.
constexpr memory::dim kChannelBlock = 16;

memory::dim RoundUp(memory::dim channels) {
  return (channels + kChannelBlock - 1) / kChannelBlock * kChannelBlock;
}

memory::desc Any(const memory::dims& dims) {
  return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
}

class Conv2d : public CpuLayer {
 public:
  explicit Conv2d(const LayerArguments& arguments) : plan_(arguments.plan) {
    Context& context = arguments.context;
    const memory::dims input_dims = arguments.input.value.get_desc().dims();
    const auto window = static_cast<memory::dim>(plan_.window);
    const auto filters = static_cast<memory::dim>(plan_.output.channels);
    weight_dims_ = {filters, static_cast<memory::dim>(plan_.input.channels), window, window};
    padded_dims_ = {RoundUp(filters), input_dims[1], window, window};
    strides_.assign(2, static_cast<memory::dim>(plan_.stride));
    padding_.assign(2, static_cast<memory::dim>(plan_.padding));
    const convolution_forward::primitive_desc forward = MakeForward(arguments);
    if (!context.training()) {
      return;
    }
    if (arguments.activation) {
      activation_backward_ = MakeActivationBackward(context, *arguments.activation,
                                                    output_.value, output_.diff, output_.diff);
    }
    MakeBackwardWeights(context, forward);
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

  void Forward(const StepKey* key) override {
    repack_input_.Run();
    forward_.Run();
  }

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
  memory::dims BiasDims() const { return {weight_dims_[0]}; }
  // Empty where the layer has no bias.
  memory::desc BiasDesc() const {
    return plan_.bias.size == 0
               ? memory::desc()
               : memory::desc({padded_dims_[0]}, memory::data_type::f32, memory::format_tag::a);
  }

  convolution_forward::primitive_desc MakeForward(const LayerArguments& arguments) {
    Context& context = arguments.context;
    const Port& input = arguments.input;
    const memory::desc input_desc = input.value.get_desc();
    const memory::dims output_dims = {input_desc.dims()[0], padded_dims_[0],
                                      static_cast<memory::dim>(plan_.output.height),
                                      static_cast<memory::dim>(plan_.output.width)};
    dnnl::primitive_attr attributes = UserScratchpad();
    if (arguments.activation) {
      FuseActivation(*arguments.activation, attributes);
    }
    const convolution_forward::primitive_desc forward(
        {context.training() ? dnnl::prop_kind::forward_training
                            : dnnl::prop_kind::forward_inference,
         dnnl::algorithm::convolution_direct,
         input.external ? Any(input_desc.dims()) : input_desc, Any(padded_dims_), BiasDesc(),
         Any(output_dims), strides_, padding_, padding_},
        attributes, context.engine());
    source_ = input.value;
    if (forward.src_desc() != input_desc) {
      source_ = context.Allocate(forward.src_desc());
      repack_input_ = MakeReorder(context, input.value, source_);
    }
    AllocateOutput(context, forward.dst_desc(), plan_.output);
    weight_ = PackedTensor(context, weight_dims_, forward.weights_desc());
    Call::Arguments values = {{DNNL_ARG_SRC, source_},
                              {DNNL_ARG_WEIGHTS, weight_.packed()},
                              {DNNL_ARG_DST, output_.value}};
    if (plan_.bias.size > 0) {
      bias_ = PackedTensor(context, BiasDims(), BiasDesc());
      values.emplace_back(DNNL_ARG_BIAS, bias_.packed());
    }
    forward_ = Call::Make<convolution_forward>(context, forward, std::move(values));
    return forward;
  }

  void MakeBackwardWeights(Context& context, const convolution_forward::primitive_desc& forward) {
    const convolution_backward_weights::primitive_desc weights(
        {dnnl::algorithm::convolution_direct, source_.get_desc(), Any(padded_dims_), BiasDesc(),
         output_.diff.get_desc(), strides_, padding_, padding_},
        UserScratchpad(), context.engine(), forward);
    weight_diff_ = PackedTensor(context, weight_dims_, weights.diff_weights_desc());
    Call::Arguments values = {{DNNL_ARG_SRC, source_},
                              {DNNL_ARG_DIFF_DST, output_.diff},
                              {DNNL_ARG_DIFF_WEIGHTS, weight_diff_.packed()}};
    if (plan_.bias.size > 0) {
      bias_diff_ = PackedTensor(context, BiasDims(), BiasDesc());
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
        {dnnl::algorithm::convolution_direct, arguments.input.diff.get_desc(), Any(padded_dims_),
         output_.diff.get_desc(), strides_, padding_, padding_},
        UserScratchpad(), context.engine(), forward);
    backward_weight_ = PackedTensor(context, weight_dims_, data.weights_desc());
    backward_data_ = Call::Make<convolution_backward_data>(
        context, data,
        {{DNNL_ARG_DIFF_DST, output_.diff},
         {DNNL_ARG_WEIGHTS, backward_weight_.packed()},
         {DNNL_ARG_DIFF_SRC, arguments.input.diff}});
  }

  LayerPlan plan_;
  memory::dims weight_dims_;  // OIHW as the model has it
  memory::dims padded_dims_;  // as computed
  memory::dims strides_;
  memory::dims padding_;
  bool has_input_diff_ = false;
  memory source_;
  PackedTensor weight_;
  PackedTensor backward_weight_;  // the backward pass wants another format
  PackedTensor bias_;
  PackedTensor weight_diff_;
  PackedTensor bias_diff_;
  Call repack_input_;
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
