#include "worker/backend/cpu/pool2d.h"

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
    const auto algorithm = plan.kind == LayerKind::kMaxPool2d
                               ? dnnl::algorithm::pooling_max
                               : dnnl::algorithm::pooling_avg_exclude_padding;
    const memory::dims window(2, static_cast<memory::dim>(plan.window));
    const memory::dims strides(2, static_cast<memory::dim>(plan.stride));
    const memory::dims none(2, 0);
    AllocateOutput(context, ChannelsLastDesc(context.examples(), plan.output), plan.output);
    const pooling_forward::primitive_desc forward(
        {context.training() ? dnnl::prop_kind::forward_training
                            : dnnl::prop_kind::forward_inference,
         algorithm, input, output_.value.get_desc(), strides, window, none, none},
        UserScratchpad(), context.engine());
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
    const pooling_backward::primitive_desc backward(
        {algorithm, arguments.input.diff.get_desc(), output_.diff.get_desc(), strides, window, none,
         none},
        UserScratchpad(), context.engine(), forward);
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
