// Locally connected layers: for a group of samples at a time, a product for each position of the
// output.
#include <algorithm>

#include "worker/backend/cuda/kernels/column_sum_kernels.h"
#include "worker/backend/cuda/kernels/local_kernels.h"
#include "worker/backend/cuda/layers/image_shape.h"
#include "worker/backend/cuda/layers/layer.h"
#include "worker/backend/cuda/layers/parts.h"
#include "worker/backend/cuda/layers/sample_groups.h"

namespace monsoon::cuda {
namespace {

class LocallyConnected2d : public DeviceLayer {
 public:
  LocallyConnected2d(const LayerPlan& plan, Precision precision, uint64_t group_bytes)
      : shape_(ToImageShape(plan)),
        weight_(plan.weight),
        bias_(plan.bias),
        group_bytes_(group_bytes),
        precision_(precision),
        type_(HalfOf(precision)) {}

  uint64_t WorkspaceBytes(uint64_t examples) const override { return WorkOf(examples).bytes; }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    ForEachGroup(pass.examples, GroupSize(pass.examples), [&](uint64_t first, uint64_t group) {
      // [p][group, filters] = columns[p][group, patch] W[p][filters, patch]^T
      RowMajorProduct product = OfPositions();
      product.transpose_b = true;
      product.m = group;
      product.n = shape_.out_channels;
      product.k = shape_.patch();
      product.a = Unfold(pass, in, first, group);
      product.stride_a = group * shape_.patch();
      product.b = WeightFactor(pass, precision_, weight_);
      product.stride_b = uint64_t{shape_.out_channels} * shape_.patch();
      product.c = At<float>(pass, WorkOf(pass.examples).rows);
      product.stride_c = group * shape_.out_channels;
      pass.gemm.Multiply(product);
      MoveToOutputs(pass.stream,
                    ProductsToOutputs{Place(group), Divisor(shape_.out_size()), product.c,
                                      bias_.size == 0 ? nullptr : pass.parameters + bias_.offset,
                                      out + first * shape_.out_size()},
                    group * shape_.out_size());
    });
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (bias_.size != 0) {
      // A bias has an output of its own.
      SumColumns(pass.stream,
                 ColumnSums{out_diff, Narrow(pass.examples), shape_.out_size(),
                            pass.gradient + bias_.offset, pass.workspace, bias_.shared});
    }
    ForEachGroup(pass.examples, GroupSize(pass.examples), [&](uint64_t first, uint64_t group) {
      const void* rows = DiffRows(pass, out_diff + first * shape_.out_size(), group);
      // dW[p][filters, patch] (+)= rows[p][group, filters]^T columns[p][group, patch]
      RowMajorProduct weights = OfPositions();
      weights.transpose_a = true;
      weights.m = shape_.out_channels;
      weights.n = shape_.patch();
      weights.k = group;
      weights.a = rows;
      weights.stride_a = group * shape_.out_channels;
      weights.b = Unfold(pass, in, first, group);
      weights.stride_b = group * shape_.patch();
      weights.c = pass.gradient + weight_.offset;
      weights.stride_c = uint64_t{shape_.out_channels} * shape_.patch();
      weights.accumulate = weight_.shared || first > 0;
      pass.gemm.Multiply(weights);
      if (in_diff == nullptr) {
        return;
      }
      // columns[p][group, patch] = rows[p][group, filters] W[p][filters, patch], over what the
      // product before has read.
      RowMajorProduct inputs = OfPositions();
      inputs.m = group;
      inputs.n = shape_.patch();
      inputs.k = shape_.out_channels;
      inputs.a = rows;
      inputs.stride_a = group * shape_.out_channels;
      inputs.b = WeightFactor(pass, precision_, weight_);
      inputs.stride_b = uint64_t{shape_.out_channels} * shape_.patch();
      inputs.c = At<float>(pass, 0);
      inputs.stride_c = group * shape_.patch();
      pass.gemm.Multiply(inputs);
      FoldFromPatches(
          pass.stream,
          FoldPatches(shape_, Narrow(group), inputs.c, in_diff + first * shape_.in_size()),
          group * shape_.in_size());
    });
  }

 private:
  struct Work {
    uint64_t rows;  // behind the columns
    uint64_t bytes;
  };

  Work WorkOf(uint64_t examples) const {
    const uint64_t group = GroupSize(examples);
    Parts parts;
    Work work = {};
    parts.Floats(group * shape_.patch() * shape_.out_area());
    work.rows = parts.Floats(group * shape_.out_size());
    const uint64_t sums = bias_.size == 0 ? 0 : ColumnSumBytes(examples, shape_.out_size());
    work.bytes = std::max(parts.bytes(), sums);
    return work;
  }

  template <typename T>
  static T* At(const Pass& pass, uint64_t offset) {
    return reinterpret_cast<T*>(pass.workspace + offset);
  }

  uint64_t GroupSize(uint64_t examples) const {
    return LargestGroup(shape_, group_bytes_, examples);
  }

  RowMajorProduct OfPositions() const {
    RowMajorProduct product;
    product.batch = shape_.out_area();
    return product;
  }

  PositionsFirst Place(uint64_t group) const {
    return {Divisor(shape_.out_area()), Divisor(shape_.out_channels), Narrow(group)};
  }

  const void* Unfold(const Pass& pass, const float* in, uint64_t first, uint64_t group) const {
    const float* const from = in + first * shape_.in_size();
    const uint64_t count = group * shape_.patch() * shape_.out_area();
    const uint32_t samples = Narrow(group);
    if (IsHalf(precision_)) {
      UnfoldToPatches(pass.stream,
                      UnfoldPatches<uint16_t>(shape_, samples, type_, from, At<uint16_t>(pass, 0)),
                      count);
    } else {
      UnfoldToPatches(pass.stream,
                      UnfoldPatches<float>(shape_, samples, type_, from, At<float>(pass, 0)),
                      count);
    }
    return pass.workspace;
  }

  // out_diff as [p][group, filters], a product's factor.
  const void* DiffRows(const Pass& pass, const float* from, uint64_t group) const {
    const uint64_t rows = WorkOf(pass.examples).rows;
    const uint64_t count = group * shape_.out_size();
    if (IsHalf(precision_)) {
      MoveToProducts(
          pass.stream,
          OutputsToProducts<uint16_t>{Place(group), type_, from, At<uint16_t>(pass, rows)}, count);
    } else {
      MoveToProducts(pass.stream,
                     OutputsToProducts<float>{Place(group), type_, from, At<float>(pass, rows)},
                     count);
    }
    return At<void>(pass, rows);
  }

  ImageShape shape_;
  TensorSlot weight_;
  TensorSlot bias_;
  uint64_t group_bytes_;
  Precision precision_;
  HalfType type_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeLocallyConnected2d(const LayerPlan& plan, Precision precision) {
  return MakeLocallyConnected2d(plan, precision, kConvolutionGroupBytes);
}

std::unique_ptr<DeviceLayer> MakeLocallyConnected2d(const LayerPlan& plan, Precision precision,
                                                    uint64_t group_bytes) {
  return std::make_unique<LocallyConnected2d>(plan, precision, group_bytes);
}

}  // namespace monsoon::cuda
