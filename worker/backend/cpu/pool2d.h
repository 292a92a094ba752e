// Average and maximum pooling on oneDNN, in the input's format.
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

// plan.kind is kAveragePool2d or kMaxPool2d.
std::unique_ptr<CpuLayer> MakePool2d(const LayerArguments& arguments);

}  // namespace monsoon::cpu
