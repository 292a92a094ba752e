// y = W x + b.
#pragma once

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

std::unique_ptr<ReferenceLayer> MakeDense(const LayerPlan& plan);

}  // namespace monsoon::reference
