// Kernels of convolution and pooling, in the form of elementwise_kernels.h; shapes and
// formulas stand with the operations in image_ops.h. `group` is a number of samples.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/image_ops.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda {

// Im2col. T: float or uint16_t, of which `type` says the format.
template <typename T>
struct Unfolding {
  ImageShape shape;
  ColumnsLayout layout;
  HalfType type;
  const float* in;
  T* columns;
};
void UnfoldColumns(Stream& stream, const Unfolding<float>& unfolding, uint64_t group);
void UnfoldColumns(Stream& stream, const Unfolding<uint16_t>& unfolding, uint64_t group);

// Counts: group * in_size() inputs; samples * out_size() outputs.
void FoldColumns(Stream& stream, const Col2im& op, uint64_t inputs);
void AddBiasToChannels(Stream& stream, const AddChannelBias& op, uint64_t outputs);
void ProductToImages(Stream& stream, const ToImages& op, uint64_t outputs);
void ImagesToRows(Stream& stream, const FromImages<float>& op, uint64_t outputs);
void ImagesToRows(Stream& stream, const FromImages<uint16_t>& op, uint64_t outputs);
void Pool(Stream& stream, const PoolForward& op, uint64_t outputs);
void PoolGradient(Stream& stream, const PoolBackward& op, uint64_t inputs);

}  // namespace monsoon::cuda
