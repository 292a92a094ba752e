// LSTM: one product for W x + b of all steps, by a dense layer, then a product with U a step. All
// matrices but the layer's input and output have their rows by steps, then by examples: what a
// step needs lies together.
#include <algorithm>

#include "common/base/check.h"
#include "worker/backend/cpu/active_loops.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

// Examples [first, end), which one thread computes at all steps.
struct Range {
  size_t first, end;
  size_t size() const { return end - first; }
};

// The values that a direction writes, and the gradients that it reads, of the layer's output.
struct Told {
  float* values;
  size_t example_row;  // from one example to the next
  size_t step_row;     // 0: the last step alone is told
};

class Direction {
 public:
  // `input`: [steps, examples, features].
  Direction(const LayerArguments& arguments, Port input, bool backward)
      : steps_(arguments.plan.input.steps),
        examples_(arguments.context.examples()),
        units_(arguments.plan.units),
        backward_(backward),
        recurrent_(arguments.plan.tensors[backward ? 4 : 1]),
        gates_(MakeGates(arguments, std::move(input))),
        transposed_(AlignedFloats::NanFilled(units_ * Padded(4 * units_))),
        c_(AlignedFloats::NanFilled(steps_ * examples_ * units_)),
        tanh_c_(AlignedFloats::NanFilled(c_.size())),
        h_(AlignedFloats::NanFilled(c_.size())) {
    if (arguments.context.training()) {
      c_diff_ = AlignedFloats::NanFilled(examples_ * units_);
      h_diff_ = AlignedFloats::NanFilled(examples_ * units_);
    }
  }

  void SetParameters(const float* parameters) {
    gates_->SetParameters(parameters);
    weights_ = parameters + recurrent_.offset;
    ActiveSequenceLoops().transpose(4 * units_, units_, weights_, units_, transposed_.data());
  }

  void ForwardInput(const StepKey* key) { gates_->Forward(key); }
  // After it.
  void Forward(const Range& range, const Told& told) {
    for (size_t k = 0; k < steps_; ++k) {
      ForwardStep(k, range, told);
    }
  }

  void Backward(const Range& range, const Told& told) {
    std::fill(c_diff_.data() + range.first * units_, c_diff_.data() + range.end * units_, 0.0f);
    for (size_t k = steps_; k-- > 0;) {
      BackwardStep(k, range, told);
    }
  }
  // After it, of all examples.
  void BackwardInput(float* gradient) {
    gates_->Backward(gradient);
    float* const weights = gradient + recurrent_.offset;
    const size_t rows = (steps_ - 1) * examples_;
    if (rows == 0) {
      std::fill_n(weights, recurrent_.size, 0.0f);
      return;
    }
    // Each step's gates took the h of the step before, which is a step away in memory.
    const size_t away = examples_;
    const float* const diffs = Data(gates_->output().diff) + (backward_ ? 0 : away * 4 * units_);
    const float* const h = h_.data() + (backward_ ? away * units_ : 0);
    const auto u = static_cast<dnnl_dim_t>(units_);
    const dnnl_status_t status = dnnl_sgemm('T', 'N', 4 * u, u, static_cast<dnnl_dim_t>(rows), 1.0f,
                                            diffs, 4 * u, h, u, 0.0f, weights, u);
    CHECK_EQ(status, dnnl_success);
  }

 private:
  std::unique_ptr<CpuLayer> MakeGates(const LayerArguments& arguments, Port input) const {
    const size_t first = backward_ ? 3 : 0;
    LayerPlan dense;
    dense.name = arguments.plan.name;
    dense.index = arguments.plan.index;
    dense.input = arguments.plan.input;
    dense.input_extents = {arguments.plan.input};
    dense.output = Extent{.channels = 4 * units_, .steps = steps_};
    dense.weight = arguments.plan.tensors[first];
    dense.bias = arguments.plan.tensors[first + 2];
    dense.tensors = {dense.weight, dense.bias};
    return MakeDense({.context = arguments.context,
                      .plan = dense,
                      .input = std::move(input),
                      .threads = arguments.threads});
  }

  // The step that is read k-th.
  size_t Step(size_t k) const { return backward_ ? steps_ - 1 - k : k; }
  // Of a matrix with `columns`.
  size_t Row(size_t step, size_t example, size_t columns) const {
    return (step * examples_ + example) * columns;
  }

  void ForwardStep(size_t k, const Range& range, const Told& told) {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const size_t step = Step(k);
    const size_t before = Step(k - 1);  // not where k is 0
    float* const gates = Data(gates_->output().value);
    if (k > 0) {
      loops.product({.rows = range.size(),
                     .columns = 4 * units_,
                     .depth = units_,
                     .a = h_.data() + Row(before, range.first, units_),
                     .a_row = units_,
                     .a_depth = 1,
                     .b = transposed_.data(),
                     .b_depth = Padded(4 * units_),
                     .c = gates + Row(step, range.first, 4 * units_),
                     .c_row = 4 * units_,
                     .adds = true});
    }
    for (size_t n = range.first; n < range.end; ++n) {
      const size_t at = Row(step, n, units_);
      loops.lstm_forward({.units = units_,
                          .gates = gates + 4 * at,
                          .c_before = k > 0 ? c_.data() + Row(before, n, units_) : nullptr,
                          .c = c_.data() + at,
                          .tanh_c = tanh_c_.data() + at,
                          .h = h_.data() + at});
      if (told.step_row > 0 || k + 1 == steps_) {
        std::copy_n(h_.data() + at, units_,
                    told.values + n * told.example_row + step * told.step_row);
      }
    }
  }

  void BackwardStep(size_t k, const Range& range, const Told& told) {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const size_t step = Step(k);
    const float* const gates = Data(gates_->output().value);
    float* const diffs = Data(gates_->output().diff);
    for (size_t n = range.first; n < range.end; ++n) {
      const size_t at = Row(step, n, units_);
      const bool is_told = told.step_row > 0 || k + 1 == steps_;
      loops.lstm_backward(
          {.units = units_,
           .gates = gates + 4 * at,
           .c_before = k > 0 ? c_.data() + Row(Step(k - 1), n, units_) : nullptr,
           .tanh_c = tanh_c_.data() + at,
           .h_diff = k + 1 < steps_ ? h_diff_.data() + n * units_ : nullptr,
           .out_diff =
               is_told ? told.values + n * told.example_row + step * told.step_row : nullptr,
           .c_diff = c_diff_.data() + n * units_,
           .gates_diff = diffs + 4 * at});
    }
    if (k > 0) {
      loops.product({.rows = range.size(),
                     .columns = units_,
                     .depth = 4 * units_,
                     .a = diffs + Row(step, range.first, 4 * units_),
                     .a_row = 4 * units_,
                     .a_depth = 1,
                     .b = weights_,
                     .b_depth = units_,
                     .c = h_diff_.data() + range.first * units_,
                     .c_row = units_,
                     .adds = false});
    }
  }

  const size_t steps_;
  const size_t examples_;
  const size_t units_;
  const bool backward_;
  const TensorSlot recurrent_;
  const std::unique_ptr<CpuLayer> gates_;  // its output: before, then after their functions
  AlignedFloats transposed_;               // U, [units, padded 4 units]
  AlignedFloats c_, tanh_c_, h_;           // [steps, examples, units]
  AlignedFloats c_diff_, h_diff_;          // [examples, units]
  const float* weights_ = nullptr;         // U
};

class Lstm : public CpuLayer {
 public:
  explicit Lstm(const LayerArguments& arguments)
      : input_(arguments.input),
        steps_(arguments.plan.input.steps),
        examples_(arguments.context.examples()),
        features_(arguments.plan.input.features()),
        units_(arguments.plan.units),
        sequences_(arguments.plan.sequences),
        parts_(std::min(static_cast<size_t>(arguments.threads), examples_)) {
    Context& context = arguments.context;
    Port by_steps;
    by_steps.extent = arguments.plan.input;
    by_steps.value = context.Allocate(input_.value.get_desc());
    by_steps_ = by_steps.value;
    for (const bool backward : {false, true}) {
      if (backward && !arguments.plan.bidirectional) {
        continue;
      }
      if (input_.diff) {
        by_steps.diff = context.Allocate(input_.value.get_desc());
        diffs_.push_back(by_steps.diff);
      }
      directions_.push_back(std::make_unique<Direction>(arguments, by_steps, backward));
    }
    AllocateOutput(arguments, MatrixDesc(examples_, arguments.plan.output), arguments.plan.output);
  }

  void SetParameters(const float* parameters) override {
    for (const auto& direction : directions_) {
      direction->SetParameters(parameters);
    }
  }

  void Forward(const StepKey* key) override {
    const float* const in = Data(input_.value);
    float* const by_steps = Data(by_steps_);
    for (size_t t = 0; t < steps_; ++t) {
      for (size_t n = 0; n < examples_; ++n) {
        std::copy_n(in + (n * steps_ + t) * features_, features_,
                    by_steps + (t * examples_ + n) * features_);
      }
    }
    for (const auto& direction : directions_) {
      direction->ForwardInput(key);
    }
    ForEachPart(parts_, [&](size_t part) {
      for (size_t d = 0; d < directions_.size(); ++d) {
        directions_[d]->Forward(RangeOf(part), Tell(output_.value, d));
      }
    });
  }

  void Backward(float* gradient) override {
    ForEachPart(parts_, [&](size_t part) {
      for (size_t d = 0; d < directions_.size(); ++d) {
        directions_[d]->Backward(RangeOf(part), Tell(output_.diff, d));
      }
    });
    for (const auto& direction : directions_) {
      direction->BackwardInput(gradient);
    }
    if (!diffs_.empty()) {
      GatherDiffs();
    }
  }

 private:
  Range RangeOf(size_t part) const {
    return {part * examples_ / parts_, (part + 1) * examples_ / parts_};
  }

  Told Tell(const dnnl::memory& memory, size_t direction) const {
    const size_t width = directions_.size() * units_;
    return {Data(memory) + direction * units_, sequences_ ? steps_ * width : width,
            sequences_ ? width : 0};
  }

  // The sum over the directions, by examples.
  void GatherDiffs() {
    const SequenceLoops& loops = ActiveSequenceLoops();
    float* const diff = Data(input_.diff);
    for (size_t t = 0; t < steps_; ++t) {
      for (size_t n = 0; n < examples_; ++n) {
        float* const to = diff + (n * steps_ + t) * features_;
        const size_t from = (t * examples_ + n) * features_;
        if (diffs_.size() == 1) {
          std::copy_n(Data(diffs_[0]) + from, features_, to);
        } else {
          loops.add(features_, Data(diffs_[0]) + from, Data(diffs_[1]) + from, to);
        }
      }
    }
  }

  const Port input_;
  const size_t steps_;
  const size_t examples_;
  const size_t features_;
  const size_t units_;
  const bool sequences_;
  const size_t parts_;
  dnnl::memory by_steps_;            // the input, [steps, examples, features]
  std::vector<dnnl::memory> diffs_;  // of it, one a direction
  std::vector<std::unique_ptr<Direction>> directions_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeLstm(const LayerArguments& arguments) {
  return std::make_unique<Lstm>(arguments);
}

}  // namespace monsoon::cpu
