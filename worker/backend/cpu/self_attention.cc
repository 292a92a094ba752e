// Self-attention: a dense layer to q, k and v, what is done to each head of each example, and a
// dense layer behind it.
#include <algorithm>
#include <cmath>

#include "worker/backend/cpu/active_loops.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

// Rows that are computed together: with a causal mask, each such block leaves out what none of
// its rows sees.
constexpr size_t kBlockRows = 8;

// From q, k and v side by side to the heads side by side. Matrices of a head and an example are
// small: steps^2 floats of probabilities stay for the backward pass.
class Heads {
 public:
  Heads(const LayerArguments& arguments, Port qkv)
      : qkv_(std::move(qkv)),
        steps_(arguments.plan.input.steps),
        padded_(Padded(steps_)),
        features_(arguments.plan.input.features()),
        heads_(arguments.plan.heads),
        width_(features_ / heads_),
        causal_(arguments.plan.causal),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(width_)))),
        training_(arguments.context.training()),
        items_(arguments.context.examples() * heads_),
        parts_(std::min(static_cast<size_t>(arguments.threads), items_)),
        probabilities_(AlignedFloats::NanFilled((training_ ? items_ : parts_) * steps_ * padded_)),
        scratch_(AlignedFloats::NanFilled(parts_ * ScratchFloats())) {
    Context& context = arguments.context;
    const dnnl::memory::desc desc = MatrixDesc(context.examples(), arguments.plan.input);
    output_.value = context.Allocate(desc);
    if (training_) {
      output_.diff = context.Allocate(desc);
    }
    output_.extent = arguments.plan.input;
  }

  const Port& output() const { return output_; }

  void Forward() {
    ForEachPart(parts_, [&](size_t part) {
      for (size_t item = part * items_ / parts_; item < (part + 1) * items_ / parts_; ++item) {
        ForwardItem(part, item);
      }
    });
  }

  void Backward() {
    ForEachPart(parts_, [&](size_t part) {
      for (size_t item = part * items_ / parts_; item < (part + 1) * items_ / parts_; ++item) {
        BackwardItem(part, item);
      }
    });
  }

 private:
  // Of one thread: k or v transposed, [width, padded steps], and dloss/dprobabilities.
  size_t ScratchFloats() const { return (width_ + steps_) * padded_; }
  float* Transposed(size_t part) { return scratch_.data() + part * ScratchFloats(); }
  float* ProbabilityDiffs(size_t part) { return Transposed(part) + width_ * padded_; }
  float* Probabilities(size_t part, size_t item) {
    return probabilities_.data() + (training_ ? item : part) * steps_ * padded_;
  }
  // Where the head's q is in a matrix like qkv; k and v follow after `features` each.
  float* Q(const dnnl::memory& qkv, size_t item) const {
    return Data(qkv) + item / heads_ * steps_ * 3 * features_ + item % heads_ * width_;
  }
  float* Mixed(const dnnl::memory& mixed, size_t item) const {
    return Data(mixed) + item / heads_ * steps_ * features_ + item % heads_ * width_;
  }
  // Steps that some of the rows before `end` sees.
  size_t Seen(size_t end) const { return causal_ ? end : steps_; }

  // Of rows [first, end): to [rows, padded steps] = rows [rows, width] Transposed(part).
  void MultiplyTransposed(size_t part, size_t first, size_t end, const float* rows, size_t row,
                          float* to) {
    ActiveSequenceLoops().product({.rows = end - first,
                                   .columns = Padded(Seen(end)),
                                   .depth = width_,
                                   .a = rows + first * row,
                                   .a_row = row,
                                   .a_depth = 1,
                                   .b = Transposed(part),
                                   .b_depth = padded_,
                                   .c = to + first * padded_,
                                   .c_row = padded_,
                                   .adds = false});
  }

  // Of rows [first, end): to [rows, width] = square [rows, steps] rows [steps, width].
  void MultiplySeen(const float* square, size_t first, size_t end, const float* rows, size_t row,
                    float* to, size_t to_row) {
    ActiveSequenceLoops().product({.rows = end - first,
                                   .columns = width_,
                                   .depth = Seen(end),
                                   .a = square + first * padded_,
                                   .a_row = padded_,
                                   .a_depth = 1,
                                   .b = rows,
                                   .b_depth = row,
                                   .c = to + first * to_row,
                                   .c_row = to_row,
                                   .adds = false});
  }

  // Of rows [first, end): to [rows, width] = square^T [rows, steps] rows [steps, width].
  void MultiplySeeing(const float* square, size_t first, size_t end, const float* rows, size_t row,
                      float* to, size_t to_row) {
    const size_t from = causal_ ? first : 0;
    ActiveSequenceLoops().product({.rows = end - first,
                                   .columns = width_,
                                   .depth = steps_ - from,
                                   .a = square + from * padded_ + first,
                                   .a_row = 1,
                                   .a_depth = padded_,
                                   .b = rows + from * row,
                                   .b_depth = row,
                                   .c = to + first * to_row,
                                   .c_row = to_row,
                                   .adds = false});
  }

  void ForwardItem(size_t part, size_t item) {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const float* const q = Q(qkv_.value, item);
    float* const p = Probabilities(part, item);
    loops.transpose(steps_, width_, q + features_, 3 * features_, Transposed(part));
    for (size_t first = 0; first < steps_; first += kBlockRows) {
      const size_t end = std::min(first + kBlockRows, steps_);
      MultiplyTransposed(part, first, end, q, 3 * features_, p);
      for (size_t t = first; t < end; ++t) {
        loops.softmax(Seen(t + 1), Padded(Seen(end)), scale_, p + t * padded_);
      }
      MultiplySeen(p, first, end, q + 2 * features_, 3 * features_, Mixed(output_.value, item),
                   features_);
    }
  }

  void BackwardItem(size_t part, size_t item) {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const size_t row = 3 * features_;
    const float* const q = Q(qkv_.value, item);
    float* const q_diff = Q(qkv_.diff, item);
    const float* const diff = Mixed(output_.diff, item);
    const float* const p = Probabilities(part, item);
    float* const p_diff = ProbabilityDiffs(part);
    loops.transpose(steps_, width_, q + 2 * features_, row, Transposed(part));
    for (size_t first = 0; first < steps_; first += kBlockRows) {
      const size_t end = std::min(first + kBlockRows, steps_);
      MultiplyTransposed(part, first, end, diff, features_, p_diff);
      for (size_t t = first; t < end; ++t) {
        loops.softmax_backward(Padded(Seen(end)), scale_, p + t * padded_, p_diff + t * padded_);
      }
      MultiplySeen(p_diff, first, end, q + features_, row, q_diff, row);
    }
    for (size_t first = 0; first < steps_; first += kBlockRows) {
      const size_t end = std::min(first + kBlockRows, steps_);
      MultiplySeeing(p_diff, first, end, q, row, q_diff + features_, row);
      MultiplySeeing(p, first, end, diff, features_, q_diff + 2 * features_, row);
    }
  }

  const Port qkv_;
  const size_t steps_;
  const size_t padded_;  // steps in memory
  const size_t features_;
  const size_t heads_;
  const size_t width_;  // of a head
  const bool causal_;
  const float scale_;
  const bool training_;
  const size_t items_;  // heads of examples
  const size_t parts_;
  AlignedFloats probabilities_;  // [items, or parts, steps, padded steps]
  AlignedFloats scratch_;
  Port output_;
};

// The plan of the dense layer that has the tensors from `first` on.
LayerPlan DensePlan(const LayerPlan& plan, size_t first, uint64_t units) {
  LayerPlan dense;
  dense.name = plan.name;
  dense.index = plan.index;
  dense.input = plan.input;
  dense.input_extents = {plan.input};
  dense.output = Extent{.channels = units, .steps = plan.input.steps};
  const size_t tensors = plan.tensors.size() / 2;
  dense.tensors.assign(plan.tensors.begin() + static_cast<ptrdiff_t>(first),
                       plan.tensors.begin() + static_cast<ptrdiff_t>(first + tensors));
  dense.weight = dense.tensors.front();
  dense.bias = tensors == 2 ? dense.tensors.back() : TensorSlot();
  return dense;
}

class SelfAttention : public CpuLayer {
 public:
  explicit SelfAttention(const LayerArguments& arguments)
      : in_(MakeIn(arguments)), heads_(arguments, in_->output()), out_(MakeOut(arguments)) {
    output_ = out_->output();
  }

  void SetParameters(const float* parameters) override {
    in_->SetParameters(parameters);
    out_->SetParameters(parameters);
  }

  void Forward(const StepKey* key) override {
    in_->Forward(key);
    heads_.Forward();
    out_->Forward(key);
  }

  void Backward(float* gradient) override {
    out_->Backward(gradient);
    heads_.Backward();
    in_->Backward(gradient);
  }

 private:
  static std::unique_ptr<CpuLayer> MakeIn(const LayerArguments& arguments) {
    const LayerPlan plan = DensePlan(arguments.plan, 0, 3 * arguments.plan.input.features());
    return MakeDense({.context = arguments.context,
                      .plan = plan,
                      .input = arguments.input,
                      .threads = arguments.threads});
  }
  std::unique_ptr<CpuLayer> MakeOut(const LayerArguments& arguments) const {
    const LayerPlan plan = DensePlan(arguments.plan, arguments.plan.tensors.size() / 2,
                                     arguments.plan.output.features());
    return MakeDense({.context = arguments.context,
                      .plan = plan,
                      .input = heads_.output(),
                      .value_buffer = arguments.value_buffer,
                      .diff_buffer = arguments.diff_buffer,
                      .threads = arguments.threads});
  }

  const std::unique_ptr<CpuLayer> in_;
  Heads heads_;
  const std::unique_ptr<CpuLayer> out_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeSelfAttention(const LayerArguments& arguments) {
  return std::make_unique<SelfAttention>(arguments);
}

}  // namespace monsoon::cpu
