// CpuLayer: one layer of a sequence for one batch size; all primitives are made
// and all buffers bound at construction.
//
// Thread safety: none. No exceptions leave a constructed layer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/model/layer_kinds.h"
#include "worker/backend/cpu/context.h"
#include "worker/nn/buffer_plan.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon::cpu {

// The values between two layers and the loss's gradient for them: an image,
// channels last, or a plain matrix; of a sequence [n * steps, features].
struct Port {
  dnnl::memory value;
  dnnl::memory diff;  // same format; empty where no gradient is needed
  Extent extent;
};

// What a layer is made from.
struct LayerArguments {
  Context& context;
  const LayerPlan& plan;
  // Its diff is empty where the gradient need not go further; else Backward overwrites it.
  Port input;
  // All of them, of a layer that joins several.
  std::vector<Port> inputs;
  // An activation computed with the layer, in place.
  std::optional<LayerKind> activation;
  // Where the output goes (BufferPlan); kNoBuffer: memory of its own.
  int value_buffer = kNoBuffer;
  int diff_buffer = kNoBuffer;
  int threads = 1;  // that loops of its own may be shared by (parallel.h)
};

class CpuLayer {
 public:
  virtual ~CpuLayer() = default;
  const Port& output() const { return output_; }

  // The flat vector's values are to be used from now on.
  virtual void SetParameters(const float* parameters) {}
  // `key` is null when evaluating.
  virtual void Forward(const StepKey* key) = 0;
  // From output().diff to the input's diff, and the layer's own parameter
  // gradients into the flat vector `gradient`. May overwrite output().diff.
  virtual void Backward(float* gradient) = 0;

 protected:
  // Makes output_ of `desc`; its diff when training.
  void AllocateOutput(const LayerArguments& arguments, const dnnl::memory::desc& desc,
                      const Extent& extent);

  Port output_;
};

// The makers of layer_kinds.h. dnnl::error for what oneDNN cannot do.
#define MONSOON_CPU_LAYER(kind, proto_case, name, maker) \
  std::unique_ptr<CpuLayer> Make##maker(const LayerArguments& arguments);
MONSOON_LAYER_KINDS(MONSOON_CPU_LAYER)
#undef MONSOON_CPU_LAYER
// The one of arguments.plan.kind.
std::unique_ptr<CpuLayer> MakeLayer(const LayerArguments& arguments);

// Of a port's memory.
inline float* Data(const dnnl::memory& memory) {
  return static_cast<float*>(memory.get_data_handle());
}

}  // namespace monsoon::cpu
