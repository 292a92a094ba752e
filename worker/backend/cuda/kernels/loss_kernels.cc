#include "worker/backend/cuda/kernels/loss_kernels.h"

#include "worker/backend/cuda/kernels/launch.h"

namespace monsoon::cuda {
namespace {

LossTerms::Kind TermsOf(LossKind kind) {
  return kind == LossKind::kOneVersusAllLogistic ? LossTerms::Kind::kOneVersusAll
         : kind == LossKind::kBinaryCrossEntropy ? LossTerms::Kind::kBinary
                                                 : LossTerms::Kind::kSquared;
}

void SumOfTerms(Stream& stream, const LossPlan& plan, const LossArrays& arrays, uint64_t examples) {
  const uint32_t columns = static_cast<uint32_t>(plan.outputs);
  const uint32_t steps = static_cast<uint32_t>(plan.steps);
  const uint32_t rows = static_cast<uint32_t>(examples * plan.steps);
  const LossTerms terms = {TermsOf(plan.kind),
                           arrays.outputs,
                           arrays.labels,
                           arrays.targets,
                           arrays.control,
                           columns,
                           static_cast<float>(plan.label_smoothing)};
  const double share =
      plan.kind == LossKind::kOneVersusAllLogistic ? 1.0 : 1.0 / static_cast<double>(plan.outputs);
  const bool by_largest = plan.kind != LossKind::kMeanSquaredError && !plan.is_yes_or_no();
  if (by_largest) {
    ReduceRows(stream, "largest output", rows, RowLargest{arrays.outputs, columns, arrays.largest});
  } else {
    ForEach(stream, "right outputs", rows, JudgeTerms{terms, arrays.largest});
  }
  ReduceRows(stream, "loss", rows, TermsLoss{terms, share, arrays.weights, arrays.losses});
  ReduceRows(stream, "loss sum", 1,
             BatchSums{arrays.losses, arrays.largest, arrays.labels, rows, arrays.sums, steps,
                       by_largest && plan.kind == LossKind::kBinaryCrossEntropy ? arrays.control
                                                                                : nullptr});
  if (arrays.diff != nullptr) {
    const double factor = share / static_cast<double>(rows);
    ForEach(stream, "loss gradient", uint64_t{rows} * plan.outputs,
            TermsGradient{terms, Divisor(columns), static_cast<float>(factor), arrays.weights,
                          arrays.diff});
  }
}

void Softmax(Stream& stream, const LossArrays& arrays, uint64_t examples, uint64_t classes,
             uint64_t steps, double smoothing) {
  const uint32_t columns = static_cast<uint32_t>(classes);
  const uint32_t rows = static_cast<uint32_t>(examples * steps);
  ReduceRows(stream, "largest output", rows, RowLargest{arrays.outputs, columns, arrays.largest});
  ReduceRows(stream, "softmax loss", rows,
             RowLoss{arrays.outputs, arrays.labels, arrays.largest, columns, arrays.row_sums,
                     arrays.losses, smoothing, arrays.weights});
  ReduceRows(stream, "loss sum", 1,
             BatchSums{arrays.losses, arrays.largest, arrays.labels, rows, arrays.sums,
                       static_cast<uint32_t>(steps)});
  if (arrays.diff != nullptr) {
    ForEach(stream, "loss gradient", uint64_t{rows} * classes,
            LossGradient{arrays.outputs, arrays.labels, arrays.largest, arrays.row_sums,
                         arrays.control, Divisor(columns), 1.0f / static_cast<float>(rows),
                         arrays.diff, static_cast<float>(smoothing), arrays.weights});
  }
}

}  // namespace

void ComputeLoss(Stream& stream, const LossPlan& plan, const LossArrays& arrays,
                 uint64_t examples) {
  if (plan.kind == LossKind::kSoftmaxCrossEntropy) {
    Softmax(stream, arrays, examples, plan.outputs, plan.steps, plan.label_smoothing);
  } else {
    SumOfTerms(stream, plan, arrays, examples);
  }
}

void SoftmaxCrossEntropy(Stream& stream, const LossArrays& arrays, uint64_t examples,
                         uint64_t classes, uint64_t steps) {
  Softmax(stream, arrays, examples, classes, steps, 0);
}

}  // namespace monsoon::cuda
