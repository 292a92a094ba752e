#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {
namespace {

class Rescale : public CpuLayer {
 public:
  explicit Rescale(const LayerArguments& arguments)
      : input_(arguments.input),
        floats_(arguments.context.examples() * input_.extent.size()),
        scale_(static_cast<float>(arguments.plan.scale)),
        offset_(static_cast<float>(arguments.plan.offset)) {
    AllocateOutput(arguments, input_.value.get_desc(), input_.extent);
  }

  void Forward(const StepKey* /*key*/) override {
    const float* const in = Data(input_.value);
    float* const out = Data(output_.value);
    for (size_t i = 0; i < floats_; ++i) {
      out[i] = scale_ * in[i] + offset_;
    }
  }

  void Backward(float* /*gradient*/) override {
    if (!input_.diff) {
      return;
    }
    const float* const out_diff = Data(output_.diff);
    float* const in_diff = Data(input_.diff);
    for (size_t i = 0; i < floats_; ++i) {
      in_diff[i] = scale_ * out_diff[i];
    }
  }

 private:
  const Port input_;
  const size_t floats_;
  const float scale_;
  const float offset_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeRescale(const LayerArguments& arguments) {
  return std::make_unique<Rescale>(arguments);
}

}  // namespace monsoon::cpu
