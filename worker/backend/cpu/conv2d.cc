#include "worker/backend/cpu/conv2d.h"

#include "worker/backend/cpu/weighted_layer.h"

namespace monsoon::cpu {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;

constexpr dnnl::algorithm kDirect = dnnl::algorithm::convolution_direct;

// OIHW.
memory::dims WeightDims(const LayerPlan& plan) {
  const auto window = static_cast<memory::dim>(plan.window);
  return {static_cast<memory::dim>(plan.output.channels),
          static_cast<memory::dim>(plan.input.channels), window, window};
}

class Conv2d : public WeightedLayer {
 public:
  explicit Conv2d(const LayerArguments& arguments)
      : WeightedLayer(arguments, WeightDims(arguments.plan)) {
    Context& context = arguments.context;
    const LayerPlan& plan = arguments.plan;
    AllocateOutput(context, ChannelsLastDesc(context.examples(), plan.output), plan.output);
    const memory::desc input = arguments.input.value.get_desc();
    const memory::dims strides(2, static_cast<memory::dim>(plan.stride));
    const memory::dims padding(2, static_cast<memory::dim>(plan.padding));
    const convolution_forward::primitive_desc forward(
        {ForwardKind(context), kDirect, input, WeightDesc(), BiasDesc(), output_.value.get_desc(),
         strides, padding, padding},
        ForwardAttributes(arguments), context.engine());
    BindForward<convolution_forward>(arguments, forward);
    if (!context.training()) {
      return;
    }
    const memory::desc diff = output_.diff.get_desc();
    BindBackwardWeights<convolution_backward_weights>(
        arguments, {{kDirect, input, WeightDesc(), BiasDesc(), diff, strides, padding, padding},
                    UserScratchpad(),
                    context.engine(),
                    forward});
    if (arguments.input.diff) {
      BindBackwardData<convolution_backward_data>(
          arguments, {{kDirect, arguments.input.diff.get_desc(), WeightDesc(), diff, strides,
                       padding, padding},
                      UserScratchpad(),
                      context.engine(),
                      forward});
    }
  }
};

}  // namespace

std::unique_ptr<CpuLayer> MakeConv2d(const LayerArguments& arguments) {
  return std::make_unique<Conv2d>(arguments);
}

}  // namespace monsoon::cpu
