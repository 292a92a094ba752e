// CpuLayer: one layer of a sequence for one batch size; all primitives are made
// and all buffers bound at construction.
//
// Thread safety: none. No exceptions leave a constructed layer.
#pragma once

#include <optional>

#include "worker/backend/cpu/context.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon::cpu {

// The values between two layers and the loss's gradient for them: an image,
// channels last, or a plain matrix.
struct Port {
  dnnl::memory value;
  dnnl::memory diff;  // same format; empty where no gradient is needed
  Extent extent;
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
  void AllocateOutput(Context& context, const dnnl::memory::desc& desc, const Extent& extent) {
    output_.value = context.Allocate(desc);
    if (context.training()) {
      output_.diff = context.Allocate(desc);
    }
    output_.extent = extent;
  }

  Port output_;
};

// What a layer is made from.
struct LayerArguments {
  Context& context;
  const LayerPlan& plan;
  Port input;  // its diff is empty where the gradient need not go further
  // An activation computed with the layer, in place.
  std::optional<LayerKind> activation;
};

}  // namespace monsoon::cpu
