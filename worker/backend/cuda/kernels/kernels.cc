#include "worker/backend/cuda/kernels/kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void Activate(Stream& stream, const ActivationForward& op, uint64_t count) {
  ForEach(stream, "activation", count, op);
}

void ActivateBackward(Stream& stream, const ActivationBackward& op, uint64_t count) {
  ForEach(stream, "activation gradient", count, op);
}

void DropOut(Stream& stream, const ApplyDropout& op, uint64_t count) {
  ForEach(stream, "dropout", count, op);
}

void AddBiasToRows(Stream& stream, const AddBias& op, uint64_t count) {
  ForEach(stream, "bias", count, op);
}

void SumColumns(Stream& stream, const ColumnSums& op) {
  ReduceRows(stream, "bias gradient", op.columns, op);
}

void Cast(Stream& stream, const CastToHalf& op, uint64_t count) {
  ForEach(stream, "cast to half", count, op);
}

void UnscaleGradient(Stream& stream, const Unscale& op, uint64_t count) {
  ForEach(stream, "loss scale", count, op);
}

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

void SoftmaxCrossEntropy(Stream& stream, const LossArrays& arrays, uint64_t examples,
                         uint64_t classes) {
  const uint32_t columns = static_cast<uint32_t>(classes);
  const uint32_t rows = static_cast<uint32_t>(examples);
  ReduceRows(stream, "largest output", examples,
             RowLargest{arrays.outputs, columns, arrays.largest});
  ReduceRows(stream, "softmax loss", examples,
             RowLoss{arrays.outputs, arrays.labels, arrays.largest, columns, arrays.row_sums,
                     arrays.losses});
  ReduceRows(stream, "loss sum", 1,
             BatchSums{arrays.losses, arrays.largest, arrays.labels, rows, arrays.sums});
  if (arrays.diff != nullptr) {
    ForEach(stream, "loss gradient", examples * classes,
            LossGradient{arrays.outputs, arrays.labels, arrays.largest, arrays.row_sums,
                         arrays.control, columns, 1.0f / static_cast<float>(rows), arrays.diff});
  }
}

}  // namespace monsoon::cuda
