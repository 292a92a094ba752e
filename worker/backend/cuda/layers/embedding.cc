#include "worker/backend/cuda/kernels/embedding_kernels.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

// Ids to rows of the weight.
class Embedding : public DeviceLayer {
 public:
  explicit Embedding(const LayerPlan& plan)
      : weight_(plan.weight), steps_(plan.output.steps), columns_(plan.output.features()) {}

  // Of each position the next one of its id, and whether it is such a one.
  uint64_t WorkspaceBytes(uint64_t examples) const override { return 2 * OfPositions(examples); }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    LookUpRows(pass.stream,
               LookUp{Table(in), Divisor(Narrow(columns_)), pass.parameters + weight_.offset, out},
               pass.examples * steps_ * columns_);
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    const uint64_t positions = pass.examples * steps_;
    const auto next = reinterpret_cast<uint32_t*>(pass.workspace);
    const auto is_next = reinterpret_cast<uint32_t*>(pass.workspace + OfPositions(pass.examples));
    float* const gradient = pass.gradient + weight_.offset;
    if (!weight_.shared) {
      pass.stream.Zero(gradient, weight_.size * sizeof(float));
    }
    pass.stream.Zero(is_next, positions * sizeof(uint32_t));
    FindNextOfIds(pass.stream, NextOfId{in, Narrow(positions), next, is_next}, positions);
    AddUpTable(pass.stream,
               AddUpRows{Table(in), Divisor(Narrow(columns_)), Narrow(positions), next, is_next,
                         out_diff, gradient},
               positions * columns_);
    if (in_diff != nullptr) {
      pass.stream.Zero(in_diff, positions * sizeof(float));
    }
  }

 private:
  uint64_t OfPositions(uint64_t examples) const {
    return Aligned(examples * steps_ * sizeof(uint32_t));
  }
  TableRows Table(const float* ids) const { return {ids, Narrow(weight_.size / columns_)}; }

  TensorSlot weight_;
  uint64_t steps_;
  uint64_t columns_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeEmbedding(const LayerPlan& plan, Precision /*precision*/) {
  return std::make_unique<Embedding>(plan);
}

}  // namespace monsoon::cuda
