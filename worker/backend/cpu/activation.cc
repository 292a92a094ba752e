#include "worker/backend/cpu/activation.h"

#include "common/base/check.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/onednn_api.h"

namespace monsoon::cpu {
namespace {

using dnnl::algorithm;

algorithm ForwardAlgorithm(LayerKind kind) {
  switch (kind) {
    case LayerKind::kSigmoid:
      return algorithm::eltwise_logistic;
    case LayerKind::kTanh:
      return algorithm::eltwise_tanh;
    case LayerKind::kGelu:
      return algorithm::eltwise_gelu_erf;
    default:
      CHECK(kind == LayerKind::kRelu);
      return algorithm::eltwise_relu;
  }
}

algorithm BackwardAlgorithm(LayerKind kind) {
  switch (kind) {
    case LayerKind::kSigmoid:
      return algorithm::eltwise_logistic_use_dst_for_bwd;
    case LayerKind::kTanh:
      return algorithm::eltwise_tanh_use_dst_for_bwd;
    default:
      CHECK(kind == LayerKind::kRelu);
      return algorithm::eltwise_relu_use_dst_for_bwd;
  }
}

dnnl::eltwise_forward::primitive_desc ForwardDesc(Context& context, algorithm algorithm,
                                                  const dnnl::memory::desc& desc) {
  return DescribeEltwise(
      context.engine(), UserScratchpad(),
      context.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
      algorithm, desc);
}

class Activation : public CpuLayer {
 public:
  explicit Activation(const LayerArguments& arguments) {
    Context& context = arguments.context;
    const LayerKind kind = arguments.plan.kind;
    const Port& input = arguments.input;
    AllocateOutput(arguments, input.value.get_desc(), input.extent);
    forward_ = Call::Make<dnnl::eltwise_forward>(
        context, ForwardDesc(context, ForwardAlgorithm(kind), input.value.get_desc()),
        {{DNNL_ARG_SRC, input.value}, {DNNL_ARG_DST, output_.value}});
    if (!input.diff) {
      return;
    }
    if (kind == LayerKind::kGelu) {
      // Its derivative wants the input.
      const dnnl::memory::desc desc = input.value.get_desc();
      backward_ = Call::Make<dnnl::eltwise_backward>(
          context,
          DescribeEltwiseBackward(context.engine(), UserScratchpad(),
                                  ForwardDesc(context, ForwardAlgorithm(kind), desc),
                                  ForwardAlgorithm(kind), desc),
          {{DNNL_ARG_SRC, input.value},
           {DNNL_ARG_DIFF_DST, output_.diff},
           {DNNL_ARG_DIFF_SRC, input.diff}});
      return;
    }
    backward_ = MakeActivationBackward(context, kind, output_.value, output_.diff, input.diff);
  }

  void Forward(const StepKey* key) override { forward_.Run(); }
  void Backward(float* gradient) override { backward_.Run(); }

 private:
  Call forward_;
  Call backward_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeActivation(const LayerArguments& arguments) {
  return std::make_unique<Activation>(arguments);
}

bool IsActivation(LayerKind kind) {
  return kind == LayerKind::kRelu || kind == LayerKind::kSigmoid || kind == LayerKind::kTanh;
}

void FuseActivation(LayerKind activation, dnnl::primitive_attr& attributes) {
  attributes.set_post_ops(EltwiseAfter(ForwardAlgorithm(activation)));
}

Call MakeActivationBackward(Context& context, LayerKind activation, const dnnl::memory& output,
                            const dnnl::memory& output_diff, const dnnl::memory& input_diff) {
  const algorithm algorithm = BackwardAlgorithm(activation);
  const dnnl::memory::desc desc = output.get_desc();
  const dnnl::eltwise_backward::primitive_desc backward = DescribeEltwiseBackward(
      context.engine(), UserScratchpad(), ForwardDesc(context, algorithm, desc), algorithm, desc);
  return Call::Make<dnnl::eltwise_backward>(
      context, backward,
      {{DNNL_ARG_DST, output}, {DNNL_ARG_DIFF_DST, output_diff}, {DNNL_ARG_DIFF_SRC, input_diff}});
}

}  // namespace monsoon::cpu
