#include "worker/backend/cuda/kernels/image_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {
namespace {

template <typename T, uint32_t kWindow>
void Unfold(Stream& stream, const char* what, const Unfolding<T>& u, uint64_t threads) {
  ForEach(stream, what, threads, Im2col<T, kWindow>(u.shape, u.layout, u.type, u.in, u.columns));
}

template <typename T>
void UnfoldAny(Stream& stream, const char* what, const Unfolding<T>& u, uint64_t group) {
  // The columns are numbered in 32 bits as well.
  if (!MayLaunch(stream, what, group * u.shape.patch() * u.shape.out_area())) {
    return;
  }
  const uint64_t threads = group * u.shape.channels * u.shape.out_area();
  switch (u.shape.window) {
    case 3:
      return Unfold<T, 3>(stream, what, u, threads);
    case 5:
      return Unfold<T, 5>(stream, what, u, threads);
    default:
      return Unfold<T, 0>(stream, what, u, threads);
  }
}

}  // namespace

void UnfoldColumns(Stream& stream, const Unfolding<float>& unfolding, uint64_t group) {
  UnfoldAny(stream, "im2col", unfolding, group);
}

void UnfoldColumns(Stream& stream, const Unfolding<uint16_t>& unfolding, uint64_t group) {
  UnfoldAny(stream, "im2col to half", unfolding, group);
}

void FoldColumns(Stream& stream, const Col2im& op, uint64_t inputs) {
  ForEach(stream, "col2im", inputs, op);
}

void AddBiasToChannels(Stream& stream, const AddChannelBias& op, uint64_t outputs) {
  ForEach(stream, "convolution bias", outputs, op);
}

void ProductToImages(Stream& stream, const ToImages& op, uint64_t outputs) {
  ForEach(stream, "convolution output", outputs, op);
}

void ImagesToRows(Stream& stream, const FromImages<float>& op, uint64_t outputs) {
  ForEach(stream, "convolution gradient", outputs, op);
}

void ImagesToRows(Stream& stream, const FromImages<uint16_t>& op, uint64_t outputs) {
  ForEach(stream, "convolution gradient to half", outputs, op);
}

void Pool(Stream& stream, const PoolForward& op, uint64_t outputs) {
  ForEach(stream, "pooling", outputs, op);
}

void PoolGradient(Stream& stream, const PoolBackward& op, uint64_t inputs) {
  ForEach(stream, "pooling gradient", inputs, op);
}

}  // namespace monsoon::cuda
