#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

void CpuLayer::AllocateOutput(const LayerArguments& arguments, const dnnl::memory::desc& desc,
                              const Extent& extent) {
  Context& context = arguments.context;
  output_.value = context.Allocate(desc, Context::Kind::kValue, arguments.value_buffer);
  if (context.training()) {
    output_.diff = context.Allocate(desc, Context::Kind::kDiff, arguments.diff_buffer);
  }
  output_.extent = extent;
}

std::unique_ptr<CpuLayer> MakeLayer(const LayerArguments& arguments) {
  switch (arguments.plan.kind) {
#define MONSOON_CPU_LAYER(kind, proto_case, name, maker) \
  case LayerKind::k##kind:                               \
    return Make##maker(arguments);
    MONSOON_LAYER_KINDS(MONSOON_CPU_LAYER)
#undef MONSOON_CPU_LAYER
  }
  return nullptr;
}

}  // namespace monsoon::cpu
