#include "worker/backend/cuda/kernels/image_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void UnfoldColumns(Stream& stream, const Im2col<float>& op, uint64_t group) {
  ForEach(stream, "im2col", op.shape.patch() * group * op.shape.out_area(), op);
}

void UnfoldColumns(Stream& stream, const Im2col<uint16_t>& op, uint64_t group) {
  ForEach(stream, "im2col to half", op.shape.patch() * group * op.shape.out_area(), op);
}

void FoldColumns(Stream& stream, const Col2im& op, uint64_t group) {
  ForEach(stream, "col2im", group * op.shape.in_size(), op);
}

void ProductToImages(Stream& stream, const ToImages& op, uint64_t group) {
  ForEach(stream, "convolution output", group * op.shape.out_size(), op);
}

void ImagesToRows(Stream& stream, const FromImages<float>& op, uint64_t group) {
  ForEach(stream, "convolution gradient", group * op.shape.out_size(), op);
}

void ImagesToRows(Stream& stream, const FromImages<uint16_t>& op, uint64_t group) {
  ForEach(stream, "convolution gradient to half", group * op.shape.out_size(), op);
}

void SumChannels(Stream& stream, const ChannelSums& op) {
  ReduceRows(stream, "bias gradient", op.shape.out_channels, op);
}

void Pool(Stream& stream, const PoolForward& op, uint64_t outputs) {
  ForEach(stream, "pooling", outputs, op);
}

void PoolGradient(Stream& stream, const PoolBackward& op, uint64_t inputs) {
  ForEach(stream, "pooling gradient", inputs, op);
}

}  // namespace monsoon::cuda
