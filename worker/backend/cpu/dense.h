// y = W x + b as a oneDNN inner product. The input is a plain [n, inputs].
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

std::unique_ptr<CpuLayer> MakeDense(const LayerArguments& arguments);

}  // namespace monsoon::cpu
