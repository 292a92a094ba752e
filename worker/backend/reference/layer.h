// ReferenceLayer: one layer in plain loops and double precision, written for
// being right and easily read, not for speed. The oracle of the fast backends.
//
// Values are sample-major in logical order (n, c, h, w). Thread safety: none;
// a layer keeps what its Backward needs from the last training Forward.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "common/model/layer_kinds.h"
#include "worker/nn/layer_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon::reference {

struct Pass {
  size_t examples = 0;
  // Null when evaluating: dropout is the identity.
  const StepKey* training = nullptr;
  std::span<const double> parameters;  // the whole flat vector

  // Batch jobs, whose loss is a function of the parameters: statistics stand still.
  bool frozen() const { return training != nullptr && !training->samples.empty(); }
};

class ReferenceLayer {
 public:
  virtual ~ReferenceLayer() = default;
  // `in` has examples * input, `out` examples * output values.
  virtual void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) {
    std::abort();
  }
  // From dloss/dout to dloss/din (overwritten); adds the layer's parameter
  // gradients to `gradient`, the whole flat vector. `in` and `out` are those
  // of the last Forward.
  virtual void Backward(const Pass& pass, std::span<const double> in, std::span<const double> out,
                        std::span<const double> out_diff, std::span<double> in_diff,
                        std::span<double> gradient) {
    std::abort();
  }

  // The same of a layer that takes several values; those above, of one.
  using Values = std::vector<std::span<const double>>;
  using Diffs = std::vector<std::span<double>>;
  virtual void ForwardJoined(const Pass& pass, const Values& in, std::span<double> out) {
    Forward(pass, in.front(), out);
  }
  virtual void BackwardJoined(const Pass& pass, const Values& in, std::span<const double> out,
                              std::span<const double> out_diff, const Diffs& in_diff,
                              std::span<double> gradient) {
    Backward(pass, in.front(), out, out_diff, in_diff.front(), gradient);
  }
};

// Each kind's maker; MakeLayer chooses.
#define MONSOON_REFERENCE_LAYER(kind, proto_case, name, maker) \
  std::unique_ptr<ReferenceLayer> Make##maker(const LayerPlan& plan);
MONSOON_LAYER_KINDS(MONSOON_REFERENCE_LAYER)
#undef MONSOON_REFERENCE_LAYER

std::unique_ptr<ReferenceLayer> MakeLayer(const LayerPlan& plan);

}  // namespace monsoon::reference
