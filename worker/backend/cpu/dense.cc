
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/onednn_api.h"
#include "worker/backend/cpu/weighted_layer.h"

namespace monsoon::cpu {
namespace {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;
using dnnl::memory;

memory::dims WeightDims(const LayerPlan& plan) {
  return {static_cast<memory::dim>(plan.output.features()),
          static_cast<memory::dim>(plan.input.features())};
}

// The flat vector's own format: the primitives then read the parameters and
// write the gradient in place. oneDNN's choice would be packed and unpacked at
// each step, which costs a small layer more than its faster product saves.
memory::desc InPlaceWeights(const LayerPlan& plan) {
  return memory::desc(WeightDims(plan), memory::data_type::f32, memory::format_tag::ab);
}

class Dense : public WeightedLayer {
 public:
  explicit Dense(const LayerArguments& arguments)
      : WeightedLayer(arguments, WeightDims(arguments.plan)) {
    Context& context = arguments.context;
    AllocateOutput(arguments, MatrixDesc(context.examples(), arguments.plan.output),
                   arguments.plan.output);
    const memory::desc input = arguments.input.value.get_desc();
    const memory::desc weights = InPlaceWeights(arguments.plan);
    const inner_product_forward::primitive_desc forward = DescribeForward<inner_product_forward>(
        context.engine(), ForwardAttributes(arguments), ForwardKind(context), input, weights,
        BiasDesc(), output_.value.get_desc());
    BindForward<inner_product_forward>(arguments, forward);
    if (!context.training()) {
      return;
    }
    const memory::desc diff = output_.diff.get_desc();
    BindBackwardWeights<inner_product_backward_weights>(
        arguments,
        DescribeBackward<inner_product_backward_weights>(
            context.engine(), UserScratchpad(), forward, input, weights, BiasDesc(), diff));
    if (arguments.input.diff) {
      BindBackwardData<inner_product_backward_data>(
          arguments, DescribeBackward<inner_product_backward_data>(
                         context.engine(), UserScratchpad(), forward, input, weights, diff));
    }
  }
};

}  // namespace

std::unique_ptr<CpuLayer> MakeDense(const LayerArguments& arguments) {
  return std::make_unique<Dense>(arguments);
}

}  // namespace monsoon::cpu
