// Inverted dropout with the masks of worker/nn/dropout_mask.h.
#pragma once

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

std::unique_ptr<ReferenceLayer> MakeDropout(const LayerPlan& plan);

}  // namespace monsoon::reference
