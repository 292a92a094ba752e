// Two-dimensional cross-correlation with stride and zero padding: unfolded
// columns and matrix products, a group of samples at a time (image_ops.h).
#include <algorithm>

#include "worker/backend/cuda/kernels/image_kernels.h"
#include "worker/backend/cuda/layers/image_shape.h"
#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {
namespace {

// Of a group's columns and products: enough for products at full speed, and the
// scratch of a large batch of images stays bounded.
constexpr uint64_t kGroupBytes = uint64_t{64} << 20;

class Conv2d : public DeviceLayer {
 public:
  Conv2d(const LayerPlan& plan, Precision precision)
      : shape_(ToImageShape(plan)),
        weight_(plan.weight),
        bias_(plan.bias),
        type_(HalfOf(precision)),
        precision_(precision) {}

  uint64_t WorkspaceBytes(uint64_t examples) const override {
    const uint64_t group = Group(examples);
    return ColumnBytes(group) + Aligned(group * shape_.out_size() * sizeof(float));
  }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    ForEachGroup(pass, [&](uint64_t first, uint64_t group, uint32_t positions) {
      const void* columns = Unfold(pass, in, first, group, positions);
      // product[k, positions] = W[k, patch] columns[patch, positions]
      RowMajorProduct product;
      product.m = shape_.out_channels;
      product.n = positions;
      product.k = shape_.patch();
      product.a = WeightFactor(pass, precision_, weight_);
      product.b = columns;
      product.c = Rows<float>(pass);
      pass.gemm.Multiply(product);
      const float* bias = bias_.size == 0 ? nullptr : pass.parameters + bias_.offset;
      ProductToImages(pass.stream,
                      ToImages{shape_, positions, product.c, bias, out + first * shape_.out_size()},
                      group);
    });
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (bias_.size != 0) {
      SumChannels(pass.stream, ChannelSums{shape_, static_cast<uint32_t>(pass.examples), out_diff,
                                           pass.gradient + bias_.offset});
    }
    ForEachGroup(pass, [&](uint64_t first, uint64_t group, uint32_t positions) {
      const void* columns = Unfold(pass, in, first, group, positions);
      const void* rows = DiffRows(pass, out_diff, first, group, positions);
      // dW[k, patch] += rows[k, positions] columns[patch, positions]^T
      RowMajorProduct weights;
      weights.transpose_b = true;
      weights.m = shape_.out_channels;
      weights.n = shape_.patch();
      weights.k = positions;
      weights.a = rows;
      weights.b = columns;
      weights.c = pass.gradient + weight_.offset;
      weights.accumulate = first > 0;
      pass.gemm.Multiply(weights);
      if (in_diff == nullptr) {
        return;
      }
      // columns[patch, positions] = W[k, patch]^T rows[k, positions], over what
      // the product before has read.
      RowMajorProduct inputs;
      inputs.transpose_a = true;
      inputs.m = shape_.patch();
      inputs.n = positions;
      inputs.k = shape_.out_channels;
      inputs.a = WeightFactor(pass, precision_, weight_);
      inputs.b = rows;
      inputs.c = reinterpret_cast<float*>(pass.workspace);
      pass.gemm.Multiply(inputs);
      FoldColumns(pass.stream,
                  Col2im{shape_, positions, inputs.c, in_diff + first * shape_.in_size()}, group);
    });
  }

 private:
  uint64_t Group(uint64_t examples) const {
    const uint64_t one = uint64_t{shape_.patch() + shape_.out_channels} * shape_.out_area();
    return std::clamp<uint64_t>(kGroupBytes / (one * sizeof(float)), 1, examples);
  }

  uint64_t ColumnBytes(uint64_t group) const {
    return Aligned(group * shape_.patch() * shape_.out_area() * sizeof(float));
  }

  // f(first sample, samples, positions), group by group.
  template <typename F>
  void ForEachGroup(const Pass& pass, F f) const {
    const uint64_t group = Group(pass.examples);
    for (uint64_t first = 0; first < pass.examples; first += group) {
      const uint64_t samples = std::min(group, pass.examples - first);
      f(first, samples, static_cast<uint32_t>(samples * shape_.out_area()));
    }
  }

  // The scratch behind the columns: [k, positions].
  template <typename T>
  T* Rows(const Pass& pass) const {
    return reinterpret_cast<T*>(pass.workspace + ColumnBytes(Group(pass.examples)));
  }

  const void* Unfold(const Pass& pass, const float* in, uint64_t first, uint64_t group,
                     uint32_t positions) const {
    const float* from = in + first * shape_.in_size();
    if (IsHalf(precision_)) {
      UnfoldColumns(pass.stream,
                    Im2col<uint16_t>{shape_, type_, positions, from,
                                     reinterpret_cast<uint16_t*>(pass.workspace)},
                    group);
    } else {
      UnfoldColumns(
          pass.stream,
          Im2col<float>{shape_, type_, positions, from, reinterpret_cast<float*>(pass.workspace)},
          group);
    }
    return pass.workspace;
  }

  const void* DiffRows(const Pass& pass, const float* out_diff, uint64_t first, uint64_t group,
                       uint32_t positions) const {
    const float* from = out_diff + first * shape_.out_size();
    if (IsHalf(precision_)) {
      ImagesToRows(pass.stream,
                   FromImages<uint16_t>{shape_, type_, positions, from, Rows<uint16_t>(pass)},
                   group);
    } else {
      ImagesToRows(pass.stream,
                   FromImages<float>{shape_, type_, positions, from, Rows<float>(pass)}, group);
    }
    return Rows<void>(pass);
  }

  ImageShape shape_;
  TensorSlot weight_;
  TensorSlot bias_;
  HalfType type_;
  Precision precision_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeConv2d(const LayerPlan& plan, Precision precision) {
  return std::make_unique<Conv2d>(plan, precision);
}

}  // namespace monsoon::cuda
