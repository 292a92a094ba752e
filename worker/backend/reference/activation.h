// ReLU, sigmoid and tanh, value by value. ReLU's derivative at 0 is 0.
#pragma once

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

// plan.kind is kRelu, kSigmoid or kTanh.
std::unique_ptr<ReferenceLayer> MakeActivation(const LayerPlan& plan);

}  // namespace monsoon::reference
