// y = W x + b at each step, as three matrix products over the batch; the first adds the bias. A
// ReLU that follows stays a kernel: it hands on a NaN, which a step must show, and what
// cuBLASLt's makes of one is not said. The bias's gradient stays one too: its sum is of
// float32, also where the products take halves.
#include "worker/backend/cuda/layers/projection.h"

namespace monsoon::cuda {
namespace {

class Dense : public DeviceLayer {
 public:
  Dense(const LayerPlan& plan, Precision precision)
      : projection_{plan.weight, plan.bias, plan.input.features(), plan.output.features(),
                    precision},
        steps_(plan.input.steps) {}

  uint64_t WorkspaceBytes(uint64_t examples) const override {
    return Scratch(examples, projection_.inputs) + Scratch(examples, projection_.units) +
           projection_.SumBytes(examples * steps_);
  }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    projection_.Forward(pass, pass.examples * steps_, InputFactor(pass, in), out);
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    const uint64_t rows = pass.examples * steps_;
    char* const after_input = pass.workspace + Scratch(pass.examples, projection_.inputs);
    const void* diff = AsFactor(pass, projection_.precision, out_diff, rows * projection_.units,
                                reinterpret_cast<uint16_t*>(after_input));
    projection_.WeightGradient(pass, rows, InputFactor(pass, in), diff);
    projection_.BiasGradient(pass, rows, out_diff,
                             after_input + Scratch(pass.examples, projection_.units));
    if (in_diff != nullptr) {
      projection_.InputGradient(pass, rows, diff, in_diff);
    }
  }

 private:
  // Of so many values at each step, as halves.
  uint64_t Scratch(uint64_t examples, uint64_t values) const {
    return IsHalf(projection_.precision) ? Aligned(examples * steps_ * values * 2) : 0;
  }

  const void* InputFactor(const Pass& pass, const float* in) const {
    return AsFactor(pass, projection_.precision, in,
                    pass.examples * steps_ * projection_.inputs,
                    reinterpret_cast<uint16_t*>(pass.workspace));
  }

  Projection projection_;
  uint64_t steps_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeDense(const LayerPlan& plan, Precision precision) {
  return std::make_unique<Dense>(plan, precision);
}

}  // namespace monsoon::cuda
