// Inverted dropout with the masks of worker/nn/dropout_mask.h.
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

std::unique_ptr<CpuLayer> MakeDropout(const LayerArguments& arguments);

}  // namespace monsoon::cpu
