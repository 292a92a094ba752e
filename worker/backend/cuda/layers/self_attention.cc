// Scaled dot-product attention: a product to q, k and v of all heads, two for each head's matrix,
// and one of the heads side by side.
#include <algorithm>
#include <cmath>

#include "worker/backend/cuda/kernels/attention_kernels.h"
#include "worker/backend/cuda/layers/parts.h"
#include "worker/backend/cuda/layers/projection.h"

namespace monsoon::cuda {
namespace {

class SelfAttention : public DeviceLayer {
 public:
  SelfAttention(const LayerPlan& plan, Precision precision)
      : steps_(plan.input.steps),
        features_(plan.input.features()),
        heads_(plan.heads),
        width_(features_ / heads_),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(width_)))),
        causal_(plan.causal),
        precision_(precision) {
    const bool with_bias = plan.tensors.size() == 4;
    const auto bias = [&](size_t i) { return with_bias ? plan.tensors[i] : TensorSlot(); };
    in_ = {plan.tensors[0], bias(1), features_, 3 * features_, precision};
    out_ = {plan.tensors[with_bias ? 2 : 1], bias(3), features_, features_, precision};
  }

  uint64_t KeptBytes(uint64_t examples) const override { return KeptOf(examples).bytes; }
  uint64_t WorkspaceBytes(uint64_t examples) const override { return WorkOf(examples).bytes; }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    const Sizes of(*this, pass.examples);
    const Work work = WorkOf(pass.examples);
    const Kept kept = KeptOf(pass.examples);
    float* const qkv = AtKept(pass, kept.qkv);
    float* const shares = AtKept(pass, kept.shares);
    float* const mixed = AtKept(pass, kept.mixed);
    float* const rows = At<float>(pass, work.rows);
    in_.Forward(pass, of.rows, Factor(pass, in, of.values, work.narrow), rows);
    MoveToHeads(pass.stream, SplitHeads{Shape(pass, 3), rows, qkv}, 3 * of.values);
    const void* const factors = Factor(pass, qkv, 3 * of.values, work.wide);
    // scores[step, step] = q[step, width] k[step, width]^T
    Multiply(pass, {.transpose_b = true, .m = steps_, .n = steps_, .k = width_,
                    .a = Part(factors, 0, of), .b = Part(factors, 1, of), .c = shares});
    SoftmaxOfSeen(pass.stream, Seen(), scale_, shares, At<float>(pass, work.sums), of.score_rows);
    // heads[step, width] = shares[step, step] v[step, width]
    Multiply(pass, {.m = steps_, .n = width_, .k = steps_,
                    .a = Factor(pass, shares, of.scores, work.scores),
                    .b = Part(factors, 2, of), .c = At<float>(pass, work.heads)});
    MoveFromHeads(pass.stream, JoinHeads{Shape(pass, 1), At<float>(pass, work.heads), mixed},
                  of.values);
    out_.Forward(pass, of.rows, Factor(pass, mixed, of.values, work.narrow), out);
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    const Sizes of(*this, pass.examples);
    const Work work = WorkOf(pass.examples);
    const Kept kept = KeptOf(pass.examples);
    const float* const mixed = AtKept(pass, kept.mixed);
    float* const rows = At<float>(pass, work.rows);
    void* const sums = At<void>(pass, work.sums);
    const void* diff = Factor(pass, out_diff, of.values, work.scores);
    out_.WeightGradient(pass, of.rows, Factor(pass, mixed, of.values, work.narrow), diff);
    out_.BiasGradient(pass, of.rows, out_diff, sums);
    out_.InputGradient(pass, of.rows, diff, rows);
    HeadsBackward(pass, of, work, kept, rows);
    diff = Factor(pass, rows, 3 * of.values, work.wide);
    in_.WeightGradient(pass, of.rows, Factor(pass, in, of.values, work.narrow), diff);
    in_.BiasGradient(pass, of.rows, rows, sums);
    if (in_diff != nullptr) {
      in_.InputGradient(pass, of.rows, diff, in_diff);
    }
  }

 private:
  struct Sizes {
    Sizes(const SelfAttention& layer, uint64_t examples)
        : rows(examples * layer.steps_),
          values(rows * layer.features_),
          score_rows(rows * layer.heads_),
          scores(score_rows * layer.steps_) {}
    uint64_t rows;  // of the layer's input and output
    uint64_t values;
    uint64_t score_rows;
    uint64_t scores;
  };

  // Where the parts begin of what is kept.
  struct Kept {
    uint64_t qkv;     // [3][n, head][step, width]
    uint64_t shares;  // [n, head][step, step]
    uint64_t mixed;   // [n, step][head, width]
    uint64_t bytes;
  };

  // And of the workspace.
  struct Work {
    uint64_t rows;         // [n, step][3][head, width]
    uint64_t heads;        // [3][n, head][step, width]
    uint64_t score_diffs;  // [n, head][step, step]
    uint64_t sums;         // of rows of scores, and of columns
    uint64_t narrow;       // halves of values
    uint64_t wide;         // halves of three times as many
    uint64_t scores;       // halves of scores, or of values
    uint64_t bytes;
  };

  Kept KeptOf(uint64_t examples) const {
    const Sizes of(*this, examples);
    Parts parts;
    Kept kept = {};
    kept.qkv = parts.Floats(3 * of.values);
    kept.shares = parts.Floats(of.scores);
    kept.mixed = parts.Floats(of.values);
    kept.bytes = parts.bytes();
    return kept;
  }

  Work WorkOf(uint64_t examples) const {
    const Sizes of(*this, examples);
    Parts parts;
    Work work = {};
    work.rows = parts.Floats(3 * of.values);
    work.heads = parts.Floats(3 * of.values);
    work.score_diffs = parts.Floats(of.scores);
    work.sums = parts.Take(std::max({2 * of.score_rows * sizeof(float), in_.SumBytes(of.rows),
                                     out_.SumBytes(of.rows)}));
    work.narrow = parts.Halves(precision_, of.values);
    work.wide = parts.Halves(precision_, 3 * of.values);
    work.scores = parts.Halves(precision_, std::max(of.scores, of.values));
    work.bytes = parts.bytes();
    return work;
  }

  template <typename T>
  static T* At(const Pass& pass, uint64_t offset) {
    return reinterpret_cast<T*>(pass.workspace + offset);
  }
  static float* AtKept(const Pass& pass, uint64_t offset) {
    return reinterpret_cast<float*>(pass.kept + offset);
  }

  const void* Factor(const Pass& pass, const float* values, uint64_t count, uint64_t scratch) const {
    return AsFactor(pass, precision_, values, count, At<uint16_t>(pass, scratch));
  }
  // q, k or v of the factors of all.
  const void* Part(const void* factors, uint64_t part, const Sizes& of) const {
    return static_cast<const char*>(factors) + part * of.values * (IsHalf(precision_) ? 2 : 4);
  }

  HeadShape Shape(const Pass& pass, uint32_t parts) const {
    return {Divisor(Narrow(width_)), Divisor(Narrow(heads_)), Divisor(parts),
            Divisor(Narrow(steps_)), Narrow(pass.examples)};
  }
  SeenSteps Seen() const { return {Divisor(Narrow(steps_)), causal_}; }

  // The same product of each head of each sample.
  void Multiply(const Pass& pass, RowMajorProduct product) const {
    product.batch = pass.examples * heads_;
    product.stride_a = product.m * product.k;
    product.stride_b = product.k * product.n;
    product.stride_c = product.m * product.n;
    pass.gemm.Multiply(product);
  }

  // `rows` has the gradient of the heads side by side, and then that of q, k and v.
  void HeadsBackward(const Pass& pass, const Sizes& of, const Work& work, const Kept& kept,
                     float* rows) const {
    float* const head_diffs = rows + of.values;
    MoveToHeads(pass.stream, SplitHeads{Shape(pass, 1), rows, head_diffs}, of.values);
    const void* const diffs = Factor(pass, head_diffs, of.values, work.narrow);
    const void* const factors = Factor(pass, AtKept(pass, kept.qkv), 3 * of.values, work.wide);
    const float* const shares = AtKept(pass, kept.shares);
    float* const qkv_diffs = At<float>(pass, work.heads);
    float* const score_diffs = At<float>(pass, work.score_diffs);
    // dv = shares^T dheads; dshares = dheads v^T
    Multiply(pass, {.transpose_a = true, .m = steps_, .n = width_, .k = steps_,
                    .a = Factor(pass, shares, of.scores, work.scores), .b = diffs,
                    .c = qkv_diffs + 2 * of.values});
    Multiply(pass, {.transpose_b = true, .m = steps_, .n = steps_, .k = width_, .a = diffs,
                    .b = Part(factors, 2, of), .c = score_diffs});
    SoftmaxOfSeenGradient(pass.stream, Narrow(steps_), scale_, shares, score_diffs,
                          At<float>(pass, work.sums), of.score_rows);
    // dq = dscores k; dk = dscores^T q
    const void* const scores = Factor(pass, score_diffs, of.scores, work.scores);
    Multiply(pass, {.m = steps_, .n = width_, .k = steps_, .a = scores,
                    .b = Part(factors, 1, of), .c = qkv_diffs});
    Multiply(pass, {.transpose_a = true, .m = steps_, .n = width_, .k = steps_, .a = scores,
                    .b = Part(factors, 0, of), .c = qkv_diffs + of.values});
    MoveFromHeads(pass.stream, JoinHeads{Shape(pass, 3), qkv_diffs, rows}, 3 * of.values);
  }

  uint64_t steps_;
  uint64_t features_;
  uint64_t heads_;
  uint64_t width_;  // of a head
  float scale_;
  bool causal_;
  Precision precision_;
  Projection in_;
  Projection out_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeSelfAttention(const LayerPlan& plan, Precision precision) {
  return std::make_unique<SelfAttention>(plan, precision);
}

}  // namespace monsoon::cuda
