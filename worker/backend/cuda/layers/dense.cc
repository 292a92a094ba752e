// y = W x + b at each step, as three matrix products over the batch; the first adds the bias. A ReLU
// that follows stays a kernel: it hands on a NaN, which a step must show, and what
// cuBLASLt's makes of one is not said. The bias's gradient stays one too: its sum is of
// float32, also where the products take halves.
#include "worker/backend/cuda/kernels/column_sum_kernels.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

class Dense : public DeviceLayer {
 public:
  Dense(const LayerPlan& plan, Precision precision)
      : weight_(plan.weight),
        bias_(plan.bias),
        inputs_(plan.input.features()),
        units_(plan.output.features()),
        steps_(plan.input.steps),
        precision_(precision) {}

  uint64_t WorkspaceBytes(uint64_t examples) const override {
    return InputScratch(examples) + DiffScratch(examples) +
           (bias_.size == 0 ? 0 : ColumnSumBytes(Rows(examples), units_));
  }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    // out[n, units] = in[n, inputs] W[units, inputs]^T
    RowMajorProduct product;
    product.transpose_b = true;
    product.m = Rows(pass.examples);
    product.n = units_;
    product.k = inputs_;
    product.a = InputFactor(pass, in);
    product.b = WeightFactor(pass, precision_, weight_);
    product.c = out;
    if (bias_.size == 0) {
      pass.gemm.Multiply(product);
    } else {
      pass.gemm.MultiplyAndAddBias(product, pass.parameters + bias_.offset);
    }
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    const void* diff =
        AsFactor(pass, precision_, out_diff, Rows(pass.examples) * units_,
                 reinterpret_cast<uint16_t*>(pass.workspace + InputScratch(pass.examples)));
    // dW[units, inputs] = out_diff[n, units]^T in[n, inputs]
    RowMajorProduct weights;
    weights.transpose_a = true;
    weights.m = units_;
    weights.n = inputs_;
    weights.k = Rows(pass.examples);
    weights.a = diff;
    weights.b = InputFactor(pass, in);
    weights.c = pass.gradient + weight_.offset;
    weights.accumulate = weight_.shared;
    pass.gemm.Multiply(weights);
    if (bias_.size != 0) {
      SumColumns(
          pass.stream,
          ColumnSums{out_diff, static_cast<uint32_t>(Rows(pass.examples)),
                     static_cast<uint32_t>(units_),
                     pass.gradient + bias_.offset,
                     pass.workspace + InputScratch(pass.examples) + DiffScratch(pass.examples)});
    }
    if (in_diff != nullptr) {
      // in_diff[n, inputs] = out_diff[n, units] W[units, inputs]
      RowMajorProduct inputs;
      inputs.m = Rows(pass.examples);
      inputs.n = inputs_;
      inputs.k = units_;
      inputs.a = diff;
      inputs.b = WeightFactor(pass, precision_, weight_);
      inputs.c = in_diff;
      pass.gemm.Multiply(inputs);
    }
  }

 private:
  uint64_t Rows(uint64_t examples) const { return examples * steps_; }

  uint64_t InputScratch(uint64_t examples) const {
    return IsHalf(precision_) ? Aligned(Rows(examples) * inputs_ * 2) : 0;
  }

  uint64_t DiffScratch(uint64_t examples) const {
    return IsHalf(precision_) ? Aligned(Rows(examples) * units_ * 2) : 0;
  }

  const void* InputFactor(const Pass& pass, const float* in) const {
    return AsFactor(pass, precision_, in, Rows(pass.examples) * inputs_,
                    reinterpret_cast<uint16_t*>(pass.workspace));
  }

  TensorSlot weight_;
  TensorSlot bias_;
  uint64_t inputs_;
  uint64_t units_;
  uint64_t steps_;
  Precision precision_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeDense(const LayerPlan& plan, Precision precision) {
  return std::make_unique<Dense>(plan, precision);
}

}  // namespace monsoon::cuda
