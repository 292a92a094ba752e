// ReferenceLayer: one layer in plain loops and double precision, written for
// being right and easily read, not for speed. The oracle of the fast backends.
//
// Values are sample-major in logical order (n, c, h, w). Thread safety: none;
// a layer keeps what its Backward needs from the last training Forward.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "worker/nn/layer_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon::reference {

struct Pass {
  size_t examples = 0;
  // Null when evaluating: dropout is the identity.
  const StepKey* training = nullptr;
  std::span<const double> parameters;  // the whole flat vector
};

class ReferenceLayer {
 public:
  virtual ~ReferenceLayer() = default;
  // `in` has examples * input, `out` examples * output values.
  virtual void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) = 0;
  // From dloss/dout to dloss/din (overwritten); adds the layer's parameter
  // gradients to `gradient`, the whole flat vector. `in` and `out` are those
  // of the last Forward.
  virtual void Backward(const Pass& pass, std::span<const double> in, std::span<const double> out,
                        std::span<const double> out_diff, std::span<double> in_diff,
                        std::span<double> gradient) = 0;
};

}  // namespace monsoon::reference
