
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/onednn_api.h"

namespace monsoon::cpu {
namespace {

using dnnl::memory;
using dnnl::pooling_backward;
using dnnl::pooling_forward;

class Pool2d : public CpuLayer {
 public:
  explicit Pool2d(const LayerArguments& arguments) {
    Context& context = arguments.context;
    const LayerPlan& plan = arguments.plan;
    const memory::desc input = arguments.input.value.get_desc();
    const PoolingWindow window = {plan.kind == LayerKind::kMaxPool2d
                                      ? dnnl::algorithm::pooling_max
                                      : dnnl::algorithm::pooling_avg_exclude_padding,
                                  memory::dims(2, static_cast<memory::dim>(plan.stride)),
                                  memory::dims(2, static_cast<memory::dim>(plan.window))};
    AllocateOutput(arguments, ChannelsLastDesc(context.examples(), plan.output), plan.output);
    const pooling_forward::primitive_desc forward = DescribePooling(
        context.engine(), UserScratchpad(),
        context.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
        window, input, output_.value.get_desc());
    Call::Arguments values = {{DNNL_ARG_SRC, arguments.input.value}, {DNNL_ARG_DST, output_.value}};
    memory workspace;  // which value was the maximum
    if (forward.workspace_desc().get_size() > 0) {
      workspace = context.Allocate(forward.workspace_desc());
      values.emplace_back(DNNL_ARG_WORKSPACE, workspace);
    }
    forward_ = Call::Make<pooling_forward>(context, forward, std::move(values));
    if (!arguments.input.diff) {
      return;
    }
    const pooling_backward::primitive_desc backward =
        DescribePoolingBackward(context.engine(), UserScratchpad(), forward, window,
                                arguments.input.diff.get_desc(), output_.diff.get_desc());
    values = {{DNNL_ARG_DIFF_DST, output_.diff}, {DNNL_ARG_DIFF_SRC, arguments.input.diff}};
    if (workspace) {
      values.emplace_back(DNNL_ARG_WORKSPACE, workspace);
    }
    backward_ = Call::Make<pooling_backward>(context, backward, std::move(values));
  }

  void Forward(const StepKey* key) override { forward_.Run(); }
  void Backward(float* gradient) override { backward_.Run(); }

 private:
  Call forward_;
  Call backward_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakePool2d(const LayerArguments& arguments) {
  return std::make_unique<Pool2d>(arguments);
}

}  // namespace monsoon::cpu
