// Brings an image into the plain [n, values] that dense layers
// read, and its gradient back.
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

std::unique_ptr<CpuLayer> MakeFlatten(const LayerArguments& arguments);

}  // namespace monsoon::cpu
