#include "worker/backend/cuda/kernels/loss_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {

void ComputeLoss(Stream& stream, const LossPlan& plan, const LossArrays& arrays,
                 uint64_t examples) {
  SoftmaxCrossEntropy(stream, arrays, examples, plan.outputs, plan.steps);
}

void SoftmaxCrossEntropy(Stream& stream, const LossArrays& arrays, uint64_t examples,
                         uint64_t classes, uint64_t steps) {
  const uint32_t columns = static_cast<uint32_t>(classes);
  const uint32_t rows = static_cast<uint32_t>(examples * steps);
  ReduceRows(stream, "largest output", rows, RowLargest{arrays.outputs, columns, arrays.largest});
  ReduceRows(stream, "softmax loss", rows,
             RowLoss{arrays.outputs, arrays.labels, arrays.largest, columns, arrays.row_sums,
                     arrays.losses});
  ReduceRows(stream, "loss sum", 1,
             BatchSums{arrays.losses, arrays.largest, arrays.labels, rows, arrays.sums,
                       static_cast<uint32_t>(steps)});
  if (arrays.diff != nullptr) {
    ForEach(
        stream, "loss gradient", uint64_t{rows} * classes,
        LossGradient{arrays.outputs, arrays.labels, arrays.largest, arrays.row_sums, arrays.control,
                     Divisor(columns), 1.0f / static_cast<float>(rows), arrays.diff});
  }
}

}  // namespace monsoon::cuda
