// Average and maximum pooling; a rest at the border that no window covers is
// cut off. Of equal maxima the first in row order gets the gradient.
#pragma once

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

// plan.kind is kAveragePool2d or kMaxPool2d.
std::unique_ptr<ReferenceLayer> MakePool2d(const LayerPlan& plan);

}  // namespace monsoon::reference
