// Two-dimensional cross-correlation with stride and zero padding: unfolded columns and
// matrix products, a group of samples at a time, in one of the two forms of image_ops.h.
//
// Per sample, in floats, with P = patch, A = out_area and K = out_channels, the group's
// form reads and writes 4 K A for its two layout passes (out of the forward product, and
// of out_diff into it). The form by sample has none of them, but
// - its weight gradient is a product for each sample, which are then added up: 2 K P;
// - its two other products have A columns each, in tiles of 64 of which half of one is
//   idle on average: 128 K P operations. At 20 operations in the time of a byte (float32
//   on an H100; 12 on an A100, 25 on a T4) that is as long as some 2 K P floats take.
// So by sample where P <= A: large images, as in the first layers, where the layout
// passes cost most; and a product of few weights over a long sum, which one call spreads
// badly, becomes one for each sample. Where P > A the group's products are of full size.
// The choice is by the shape alone and the sums are fixed trees: the same bits each time.
#include <algorithm>

#include "worker/backend/cuda/kernels/column_sum_kernels.h"
#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/image_kernels.h"
#include "worker/backend/cuda/layers/image_shape.h"
#include "worker/backend/cuda/layers/layer.h"
#include "worker/backend/cuda/layers/sample_groups.h"

namespace monsoon::cuda {
namespace {

class Conv2d : public DeviceLayer {
 public:
  Conv2d(const LayerPlan& plan, Precision precision, uint64_t group_bytes)
      : shape_(ToImageShape(plan)),
        weight_(plan.weight),
        bias_(plan.bias),
        group_bytes_(group_bytes),
        by_sample_(shape_.patch() <= shape_.out_area()),
        type_(HalfOf(precision)),
        precision_(precision) {}

  uint64_t WorkspaceBytes(uint64_t examples) const override {
    const Scratch scratch = Parts(examples);
    return std::max(scratch.end, bias_.size == 0 ? 0 : ChannelSumBytes(shape_, examples));
  }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    ForEachGroup(pass.examples, GroupSize(pass.examples), [&](uint64_t first, uint64_t group) {
      float* const out_group = out + first * shape_.out_size();
      // [k, area of a sample or of the group] = W[k, patch] columns[patch, the same]
      RowMajorProduct product = OfForm(group);
      product.m = shape_.out_channels;
      product.n = Area(group);
      product.k = shape_.patch();
      product.a = WeightFactor(pass, precision_, weight_);
      product.b = Unfold(pass, in, first, group);
      product.stride_b = uint64_t{shape_.patch()} * shape_.out_area();
      product.c = by_sample_ ? out_group : At<float>(pass, Parts(pass.examples).rows);
      product.stride_c = shape_.out_size();
      pass.gemm.Multiply(product);
      if (!by_sample_) {
        const float* bias = bias_.size == 0 ? nullptr : pass.parameters + bias_.offset;
        ProductToImages(pass.stream,
                        ToImages(shape_, static_cast<uint32_t>(group), product.c, bias, out_group),
                        group * shape_.out_size());
      } else if (bias_.size != 0) {
        // While the group lies in the cache.
        AddBiasToChannels(pass.stream,
                          AddChannelBias(shape_, pass.parameters + bias_.offset, out_group),
                          group * shape_.out_size());
      }
    });
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    if (bias_.size != 0) {
      SumChannels(pass.stream, ChannelSums{shape_, static_cast<uint32_t>(pass.examples), out_diff,
                                           pass.gradient + bias_.offset, pass.workspace});
    }
    ForEachGroup(pass.examples, GroupSize(pass.examples), [&](uint64_t first, uint64_t group) {
      const void* columns = Unfold(pass, in, first, group);
      const void* rows = DiffRows(pass, out_diff + first * shape_.out_size(), group);
      WeightGradient(pass, columns, rows, first, group);
      if (in_diff == nullptr) {
        return;
      }
      // columns[patch, area] = W[k, patch]^T rows[k, area], over what the product before
      // has read.
      RowMajorProduct inputs = OfForm(group);
      inputs.transpose_a = true;
      inputs.m = shape_.patch();
      inputs.n = Area(group);
      inputs.k = shape_.out_channels;
      inputs.a = WeightFactor(pass, precision_, weight_);
      inputs.b = rows;
      inputs.stride_b = shape_.out_size();
      inputs.c = At<float>(pass, 0);
      inputs.stride_c = uint64_t{shape_.patch()} * shape_.out_area();
      pass.gemm.Multiply(inputs);
      FoldColumns(pass.stream,
                  Col2im(shape_, Layout(group), inputs.c, in_diff + first * shape_.in_size()),
                  group * shape_.in_size());
    });
  }

 private:
  // Where the parts of the workspace begin; the columns at 0.
  struct Scratch {
    uint64_t rows;     // of the group: the product, or out_diff; by sample: its halves
    uint64_t weights;  // by sample: weight gradients
    uint64_t sums;     // by sample: what their sum needs
    uint64_t end;
  };

  Scratch Parts(uint64_t examples) const {
    const uint64_t group = GroupSize(examples);
    Scratch scratch = {};
    scratch.rows = Aligned(group * shape_.patch() * shape_.out_area() * sizeof(float));
    if (!by_sample_) {
      scratch.end = scratch.rows + Aligned(group * shape_.out_size() * sizeof(float));
      return scratch;
    }
    scratch.weights =
        scratch.rows + (IsHalf(precision_) ? Aligned(group * shape_.out_size() * 2) : 0);
    scratch.sums = scratch.weights + Aligned(group * weight_.size * sizeof(float));
    scratch.end = scratch.sums + Aligned(ColumnSumBytes(group, weight_.size));
    return scratch;
  }

  template <typename T>
  static T* At(const Pass& pass, uint64_t offset) {
    return reinterpret_cast<T*>(pass.workspace + offset);
  }

  uint64_t GroupSize(uint64_t examples) const {
    return LargestGroup(shape_, group_bytes_, examples);
  }

  // The batch of a product in the layer's form; W is the same for all.
  RowMajorProduct OfForm(uint64_t group) const {
    RowMajorProduct product;
    product.batch = by_sample_ ? group : 1;
    return product;
  }
  uint64_t Area(uint64_t group) const { return shape_.out_area() * (by_sample_ ? 1 : group); }
  ColumnsLayout Layout(uint64_t group) const {
    return by_sample_ ? ColumnsLayout::BySample(shape_)
                      : ColumnsLayout::OfGroup(shape_, static_cast<uint32_t>(group));
  }

  const void* Unfold(const Pass& pass, const float* in, uint64_t first, uint64_t group) const {
    const float* from = in + first * shape_.in_size();
    if (IsHalf(precision_)) {
      UnfoldColumns(pass.stream,
                    Unfolding<uint16_t>{shape_, Layout(group), type_, from, At<uint16_t>(pass, 0)},
                    group);
    } else {
      UnfoldColumns(pass.stream,
                    Unfolding<float>{shape_, Layout(group), type_, from, At<float>(pass, 0)},
                    group);
    }
    return pass.workspace;
  }

  // out_diff as the products take it: [n][k, area] by sample, [k, (n, area)] of the group.
  const void* DiffRows(const Pass& pass, const float* from, uint64_t group) const {
    const uint64_t scratch = Parts(pass.examples).rows;
    const uint64_t values = group * shape_.out_size();
    if (by_sample_) {
      return AsFactor(pass, precision_, from, values, At<uint16_t>(pass, scratch));
    }
    const uint32_t samples = static_cast<uint32_t>(group);
    if (IsHalf(precision_)) {
      ImagesToRows(pass.stream,
                   FromImages<uint16_t>(shape_, samples, type_, from, At<uint16_t>(pass, scratch)),
                   values);
    } else {
      ImagesToRows(pass.stream,
                   FromImages<float>(shape_, samples, type_, from, At<float>(pass, scratch)),
                   values);
    }
    return At<void>(pass, scratch);
  }

  // dW[k, patch] (+)= rows[k, area] columns[patch, area]^T, summed over the samples.
  void WeightGradient(const Pass& pass, const void* columns, const void* rows, uint64_t first,
                      uint64_t group) const {
    const Scratch scratch = Parts(pass.examples);
    float* const gradient = pass.gradient + weight_.offset;
    RowMajorProduct weights = OfForm(group);
    weights.transpose_b = true;
    weights.m = shape_.out_channels;
    weights.n = shape_.patch();
    weights.k = Area(group);
    weights.a = rows;
    weights.stride_a = shape_.out_size();
    weights.b = columns;
    weights.stride_b = uint64_t{shape_.patch()} * shape_.out_area();
    if (weights.batch == 1) {
      weights.c = gradient;
      weights.accumulate = first > 0;
      pass.gemm.Multiply(weights);
      return;
    }
    weights.c = At<float>(pass, scratch.weights);
    weights.stride_c = weight_.size;
    pass.gemm.Multiply(weights);
    SumColumns(pass.stream, ColumnSums{weights.c, static_cast<uint32_t>(group),
                                       static_cast<uint32_t>(weight_.size), gradient,
                                       At<void>(pass, scratch.sums), first > 0});
  }

  ImageShape shape_;
  TensorSlot weight_;
  TensorSlot bias_;
  uint64_t group_bytes_;
  bool by_sample_;
  HalfType type_;
  Precision precision_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeConv2d(const LayerPlan& plan, Precision precision) {
  return MakeConv2d(plan, precision, kConvolutionGroupBytes);
}

std::unique_ptr<DeviceLayer> MakeConv2d(const LayerPlan& plan, Precision precision,
                                        uint64_t group_bytes) {
  return std::make_unique<Conv2d>(plan, precision, group_bytes);
}

}  // namespace monsoon::cuda
