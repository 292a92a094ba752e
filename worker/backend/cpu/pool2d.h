// Average and maximum pooling on oneDNN, channels last in memory.
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

// plan.kind is kAveragePool2d or kMaxPool2d.
std::unique_ptr<CpuLayer> MakePool2d(const LayerArguments& arguments);

}  // namespace monsoon::cpu
