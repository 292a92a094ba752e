
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/onednn_api.h"
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
    AllocateOutput(arguments, ChannelsLastDesc(context.examples(), plan.output), plan.output);
    const memory::desc input = arguments.input.value.get_desc();
    const memory::dims strides(2, static_cast<memory::dim>(plan.stride));
    const memory::dims padding(2, static_cast<memory::dim>(plan.padding));
    const convolution_forward::primitive_desc forward = DescribeForward<convolution_forward>(
        context.engine(), ForwardAttributes(arguments), ForwardKind(context), kDirect, input,
        WeightDesc(), BiasDesc(), output_.value.get_desc(), strides, padding, padding);
    BindForward<convolution_forward>(arguments, forward);
    if (!context.training()) {
      return;
    }
    const memory::desc diff = output_.diff.get_desc();
    BindBackwardWeights<convolution_backward_weights>(
        arguments, DescribeBackward<convolution_backward_weights>(
                       context.engine(), UserScratchpad(), forward, kDirect, input, WeightDesc(),
                       BiasDesc(), diff, strides, padding, padding));
    if (arguments.input.diff) {
      BindBackwardData<convolution_backward_data>(
          arguments,
          DescribeBackward<convolution_backward_data>(
              context.engine(), UserScratchpad(), forward, kDirect, arguments.input.diff.get_desc(),
              WeightDesc(), diff, strides, padding, padding));
    }
  }
};

}  // namespace

std::unique_ptr<CpuLayer> MakeConv2d(const LayerArguments& arguments) {
  return std::make_unique<Conv2d>(arguments);
}

}  // namespace monsoon::cpu
