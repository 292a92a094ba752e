// Two-dimensional convolution on oneDNN, channels last in memory (see layer_sequence.h).
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

std::unique_ptr<CpuLayer> MakeConv2d(const LayerArguments& arguments);

}  // namespace monsoon::cpu
