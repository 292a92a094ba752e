// Two-dimensional convolution on oneDNN. Output channels are padded to a
// multiple of 16 (see packed_tensor.h); the input's format is kept, but for a
// batch, which is brought into the format the convolution likes best.
#pragma once

#include <memory>

#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

std::unique_ptr<CpuLayer> MakeConv2d(const LayerArguments& arguments);

}  // namespace monsoon::cpu
