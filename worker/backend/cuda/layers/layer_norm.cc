#include "worker/backend/cuda/kernels/column_sum_kernels.h"
#include "worker/backend/cuda/kernels/norm_kernels.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

class LayerNorm : public DeviceLayer {
 public:
  explicit LayerNorm(const LayerPlan& plan)
      : scale_(plan.weight),
        shift_(plan.bias),
        steps_(plan.input.steps),
        columns_(plan.input.features()),
        epsilon_(static_cast<float>(plan.epsilon)) {}

  uint64_t KeptBytes(uint64_t examples) const override { return Rows(examples) * sizeof(RowMoments); }

  // dy x^, the means of rows, and what sums of columns need.
  uint64_t WorkspaceBytes(uint64_t examples) const override {
    return SumsAt(examples) + ColumnSumBytes(Rows(examples), columns_);
  }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    const auto moments = reinterpret_cast<RowMoments*>(pass.kept);
    FindRowMoments(pass.stream, in, Narrow(columns_), epsilon_, moments, Rows(pass.examples));
    NormaliseRows(pass.stream,
                  LayerNormForward{Divisor(Narrow(columns_)), moments, Scale(pass),
                                   shift_.size == 0 ? nullptr : pass.parameters + shift_.offset, in,
                                   out},
                  Rows(pass.examples) * columns_);
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    const uint64_t rows = Rows(pass.examples);
    const auto moments = reinterpret_cast<const RowMoments*>(pass.kept);
    const auto products = reinterpret_cast<float*>(pass.workspace);
    const auto means = reinterpret_cast<TwoMeans*>(pass.workspace + MeansAt(pass.examples));
    if (in_diff != nullptr) {
      FindRowDiffMeans(pass.stream,
                       RowDiffMeans{Narrow(columns_), moments, Scale(pass), in, out_diff, means},
                       rows);
    }
    NormaliseRowsGradient(pass.stream,
                          LayerNormBackward{Divisor(Narrow(columns_)), moments, means, Scale(pass),
                                            in, out_diff, products, in_diff},
                          rows * columns_);
    Sum(pass, products, scale_);
    if (shift_.size != 0) {
      Sum(pass, out_diff, shift_);
    }
  }

 private:
  uint64_t Rows(uint64_t examples) const { return examples * steps_; }
  uint64_t MeansAt(uint64_t examples) const {
    return Aligned(Rows(examples) * columns_ * sizeof(float));
  }
  uint64_t SumsAt(uint64_t examples) const {
    return MeansAt(examples) + Aligned(Rows(examples) * sizeof(TwoMeans));
  }
  const float* Scale(const Pass& pass) const { return pass.parameters + scale_.offset; }

  void Sum(const Pass& pass, const float* matrix, const TensorSlot& slot) const {
    SumColumns(pass.stream,
               ColumnSums{matrix, Narrow(Rows(pass.examples)), Narrow(columns_),
                          pass.gradient + slot.offset, pass.workspace + SumsAt(pass.examples),
                          slot.shared});
  }

  TensorSlot scale_;
  TensorSlot shift_;
  uint64_t steps_;
  uint64_t columns_;
  float epsilon_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeLayerNorm(const LayerPlan& plan, Precision /*precision*/) {
  return std::make_unique<LayerNorm>(plan);
}

}  // namespace monsoon::cuda
