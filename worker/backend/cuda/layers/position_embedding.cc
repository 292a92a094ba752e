#include "worker/backend/cuda/kernels/column_sum_kernels.h"
#include "worker/backend/cuda/kernels/pointwise_kernels.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

// y = x + weight, of one sequence's shape.
class PositionEmbedding : public DeviceLayer {
 public:
  explicit PositionEmbedding(const LayerPlan& plan) : weight_(plan.weight) {}

  uint64_t WorkspaceBytes(uint64_t examples) const override {
    return ColumnSumBytes(examples, weight_.size);
  }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    AddToRows(pass.stream,
              AddRow(pass.parameters + weight_.offset, Narrow(weight_.size), in, out),
              pass.examples * weight_.size);
  }

  void Backward(const Pass& pass, const float* /*in*/, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    SumColumns(pass.stream, ColumnSums{out_diff, Narrow(pass.examples), Narrow(weight_.size),
                                       pass.gradient + weight_.offset, pass.workspace,
                                       weight_.shared});
    if (in_diff != nullptr) {
      pass.stream.CopyOnDevice(in_diff, out_diff, pass.examples * weight_.size * sizeof(float));
    }
  }

 private:
  TensorSlot weight_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakePositionEmbedding(const LayerPlan& plan,
                                                   Precision /*precision*/) {
  return std::make_unique<PositionEmbedding>(plan);
}

}  // namespace monsoon::cuda
