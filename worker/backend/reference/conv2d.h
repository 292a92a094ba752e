// Two-dimensional cross-correlation with stride and zero padding.
#pragma once

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

std::unique_ptr<ReferenceLayer> MakeConv2d(const LayerPlan& plan);

}  // namespace monsoon::reference
