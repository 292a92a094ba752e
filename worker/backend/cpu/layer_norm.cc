#include <algorithm>

#include "worker/backend/cpu/active_loops.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

class LayerNorm : public CpuLayer {
 public:
  explicit LayerNorm(const LayerArguments& arguments)
      : input_(arguments.input),
        scale_(arguments.plan.weight),
        shift_(arguments.plan.bias),
        epsilon_(static_cast<float>(arguments.plan.epsilon)),
        features_(arguments.plan.input.features()),
        rows_(arguments.context.examples() * arguments.plan.input.steps),
        parts_(std::min(static_cast<size_t>(arguments.threads), rows_)),
        moments_(rows_),
        sums_(arguments.context.training() ? parts_ * 2 * features_ : 0) {
    AllocateOutput(arguments, MatrixDesc(arguments.context.examples(), arguments.plan.output),
                   arguments.plan.output);
  }

  void SetParameters(const float* parameters) override { parameters_ = parameters; }

  void Forward(const StepKey* /*key*/) override {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const float* const in = Data(input_.value);
    float* const out = Data(output_.value);
    const float* const shift = shift_.size == 0 ? nullptr : parameters_ + shift_.offset;
    ForEachPart(parts_, [&](size_t part) {
      for (size_t row = First(part); row < First(part + 1); ++row) {
        moments_[row] = {features_, parameters_ + scale_.offset, in + row * features_, 0, 0};
        loops.layer_norm(moments_[row], epsilon_, shift, out + row * features_);
      }
    });
  }

  void Backward(float* gradient) override {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const float* const out_diff = Data(output_.diff);
    float* const in_diff = input_.diff ? Data(input_.diff) : nullptr;
    ForEachPart(parts_, [&](size_t part) {
      float* const sums = Sums(part);
      std::fill_n(sums, 2 * features_, 0.0f);
      for (size_t row = First(part); row < First(part + 1); ++row) {
        loops.layer_norm_backward(moments_[row], out_diff + row * features_,
                                  in_diff == nullptr ? nullptr : in_diff + row * features_, sums,
                                  sums + features_);
      }
    });
    for (size_t part = 1; part < parts_; ++part) {
      loops.add(2 * features_, Sums(0), Sums(part), Sums(0));
    }
    std::copy_n(Sums(0), features_, gradient + scale_.offset);
    if (shift_.size != 0) {
      std::copy_n(Sums(0) + features_, features_, gradient + shift_.offset);
    }
  }

 private:
  size_t First(size_t part) const { return part * rows_ / parts_; }
  // One part's gradients of scale and shift.
  float* Sums(size_t part) { return sums_.data() + part * 2 * features_; }

  const Port input_;
  const TensorSlot scale_;
  const TensorSlot shift_;
  const float epsilon_;
  const size_t features_;
  const size_t rows_;
  const size_t parts_;
  std::vector<LayerNormRow> moments_;
  AlignedFloats sums_;
  const float* parameters_ = nullptr;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeLayerNorm(const LayerArguments& arguments) {
  return std::make_unique<LayerNorm>(arguments);
}

}  // namespace monsoon::cpu
