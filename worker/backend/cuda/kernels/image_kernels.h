// Kernels of convolution and pooling, in the form of elementwise_kernels.h; shapes and
// formulas stand with the operations in image_ops.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

void UnfoldColumns(Stream& stream, const Im2col<float>& op, uint64_t group);
void UnfoldColumns(Stream& stream, const Im2col<uint16_t>& op, uint64_t group);
void FoldColumns(Stream& stream, const Col2im& op, uint64_t group);
void ProductToImages(Stream& stream, const ToImages& op, uint64_t group);
void ImagesToRows(Stream& stream, const FromImages<float>& op, uint64_t group);
void ImagesToRows(Stream& stream, const FromImages<uint16_t>& op, uint64_t group);
void SumChannels(Stream& stream, const ChannelSums& op);
void Pool(Stream& stream, const PoolForward& op, uint64_t outputs);
void PoolGradient(Stream& stream, const PoolBackward& op, uint64_t inputs);

}  // namespace monsoon::cuda
