// Long short-term memory: the inputs' part of all gates is one product, the states' part one a
// step, and so backwards; weights' gradients are a product each, over all steps.
#include <algorithm>
#include <vector>

#include "worker/backend/cuda/kernels/lstm_kernels.h"
#include "worker/backend/cuda/layers/parts.h"
#include "worker/backend/cuda/layers/projection.h"

namespace monsoon::cuda {
namespace {

class Lstm : public DeviceLayer {
 public:
  Lstm(const LayerPlan& plan, Precision precision)
      : steps_(plan.input.steps),
        features_(plan.input.features()),
        units_(plan.units),
        told_units_(plan.output.features()),
        sequences_(plan.sequences),
        precision_(precision) {
    for (size_t first = 0; first < plan.tensors.size(); first += 3) {
      directions_.push_back(
          {{plan.tensors[first], plan.tensors[first + 2], features_, 4 * units_, precision},
           plan.tensors[first + 1]});
    }
  }

  uint64_t KeptBytes(uint64_t examples) const override {
    return directions_.size() * StatePartsOf(examples).bytes;
  }
  uint64_t WorkspaceBytes(uint64_t examples) const override { return WorkOf(examples).bytes; }

  void Forward(const Pass& pass, const float* in, float* out) const override {
    const Work work = WorkOf(pass.examples);
    for (size_t d = 0; d < directions_.size(); ++d) {
      const States states = StatesOf(pass.examples, d, pass.kept);
      directions_[d].input.Forward(pass, Rows(pass.examples), Inputs(pass, work, d, in),
                                   states.gates);
      for (uint64_t k = 0; k < steps_; ++k) {
        const uint64_t row = k * pass.examples;
        const uint64_t before = row - pass.examples;  // of no meaning at 0
        float* const gates = states.gates + row * 4 * units_;
        if (k > 0) {
          // gates[n, 4 units] += h[n, units] U[4 units, units]^T
          RowMajorProduct product = OfStep(pass, directions_[d].recurrent);
          product.transpose_b = true;
          product.n = 4 * units_;
          product.k = units_;
          product.a = AsFactor(pass, precision_, states.h + before * units_, pass.examples * units_,
                               At<uint16_t>(pass, work.factor));
          product.c = gates;
          product.accumulate = true;
          pass.gemm.Multiply(product);
        }
        RunCell(pass.stream,
                LstmForward{Divisor(Narrow(units_)), Told(), gates,
                            k == 0 ? nullptr : states.c + before * units_, states.c + row * units_,
                            states.h + row * units_, Tells(k) ? out + ToldAt(d, k) : nullptr},
                pass.examples * units_);
      }
    }
  }

  void Backward(const Pass& pass, const float* in, const float* /*out*/, const float* out_diff,
                float* in_diff) const override {
    const Work work = WorkOf(pass.examples);
    const uint64_t rows = Rows(pass.examples);
    for (size_t d = 0; d < directions_.size(); ++d) {
      const Direction& direction = directions_[d];
      const States states = StatesOf(pass.examples, d, pass.kept);
      const void* const diffs = GateDiffs(pass, work, d, states, out_diff);
      direction.input.BiasGradient(pass, rows, At<float>(pass, work.gate_diffs),
                                   At<void>(pass, work.sums));
      RecurrentGradient(pass, work, direction, states, diffs);
      direction.input.WeightGradient(pass, rows, Inputs(pass, work, d, in), diffs);
      if (in_diff != nullptr) {
        float* const by_step = At<float>(pass, work.inputs);
        direction.input.InputGradient(pass, rows, diffs, by_step);
        PutExamplesFirst(pass.stream, ExamplesFirst{Swap(pass, d), d > 0, by_step, in_diff},
                         rows * features_);
      }
    }
  }

 private:
  struct Direction {
    Projection input;      // to the gates
    TensorSlot recurrent;  // [4 units, units]
  };

  // What a direction keeps, [steps][n][...] in the order of its reading.
  struct States {
    float* gates;
    float* c;
    float* h;
  };

  // Where the parts of a direction's states begin.
  struct StateParts {
    uint64_t gates;
    uint64_t c;
    uint64_t h;
    uint64_t bytes;
  };

  // Where the workspace's parts begin.
  struct Work {
    uint64_t inputs;  // by step; in the end their gradient
    uint64_t gate_diffs;
    uint64_t dh;
    uint64_t dc;
    uint64_t factor;       // halves of inputs or states
    uint64_t diff_factor;  // halves of gate_diffs
    uint64_t sums;
    uint64_t bytes;
  };

  uint64_t Rows(uint64_t examples) const { return examples * steps_; }

  StateParts StatePartsOf(uint64_t examples) const {
    Parts parts;
    StateParts states = {};
    states.gates = parts.Floats(Rows(examples) * 4 * units_);
    states.c = parts.Floats(Rows(examples) * units_);
    states.h = parts.Floats(Rows(examples) * units_);
    states.bytes = parts.bytes();
    return states;
  }

  States StatesOf(uint64_t examples, size_t direction, char* kept) const {
    const StateParts parts = StatePartsOf(examples);
    char* const of_direction = kept + direction * parts.bytes;
    return {reinterpret_cast<float*>(of_direction + parts.gates),
            reinterpret_cast<float*>(of_direction + parts.c),
            reinterpret_cast<float*>(of_direction + parts.h)};
  }

  Work WorkOf(uint64_t examples) const {
    const uint64_t rows = Rows(examples);
    Parts parts;
    Work work = {};
    work.inputs = parts.Floats(rows * features_);
    work.gate_diffs = parts.Floats(rows * 4 * units_);
    work.dh = parts.Floats(examples * units_);
    work.dc = parts.Floats(examples * units_);
    work.factor = parts.Halves(precision_, rows * std::max(features_, units_));
    work.diff_factor = parts.Halves(precision_, rows * 4 * units_);
    work.sums = parts.Take(directions_.front().input.SumBytes(rows));
    work.bytes = parts.bytes();
    return work;
  }

  template <typename T>
  static T* At(const Pass& pass, uint64_t offset) {
    return reinterpret_cast<T*>(pass.workspace + offset);
  }

  SwapSteps Swap(const Pass& pass, size_t direction) const {
    return {Divisor(Narrow(features_)), Divisor(Narrow(pass.examples)), Narrow(steps_),
            direction > 0};
  }

  // The inputs by step, as products take them.
  const void* Inputs(const Pass& pass, const Work& work, size_t direction, const float* in) const {
    float* const by_step = At<float>(pass, work.inputs);
    const uint64_t count = Rows(pass.examples) * features_;
    PutStepsFirst(pass.stream, StepsFirst{Swap(pass, direction), in, by_step}, count);
    return AsFactor(pass, precision_, by_step, count, At<uint16_t>(pass, work.factor));
  }

  // The output and its gradient are [n][directions * units], or [n][steps][...].
  bool Tells(uint64_t k) const { return sequences_ || k + 1 == steps_; }
  uint64_t ToldAt(size_t direction, uint64_t k) const {
    const uint64_t step = direction > 0 ? steps_ - 1 - k : k;
    return (sequences_ ? step * told_units_ : 0) + direction * units_;
  }
  ToldState Told() const { return {Narrow(told_units_ * (sequences_ ? steps_ : 1))}; }

  RowMajorProduct OfStep(const Pass& pass, const TensorSlot& recurrent) const {
    RowMajorProduct product;
    product.m = pass.examples;
    product.b = WeightFactor(pass, precision_, recurrent);
    return product;
  }

  // All gates' gradients, as products take them.
  const void* GateDiffs(const Pass& pass, const Work& work, size_t d, const States& states,
                        const float* out_diff) const {
    const uint64_t of_step = pass.examples * units_;
    float* const all = At<float>(pass, work.gate_diffs);
    float* const dh = At<float>(pass, work.dh);
    for (uint64_t k = steps_; k-- > 0;) {
      float* const diffs = all + 4 * k * of_step;
      RunCellBack(pass.stream,
                  LstmBackward{Divisor(Narrow(units_)), Told(), states.gates + 4 * k * of_step,
                               k == 0 ? nullptr : states.c + (k - 1) * of_step,
                               states.c + k * of_step, Tells(k) ? out_diff + ToldAt(d, k) : nullptr,
                               k + 1 == steps_ ? nullptr : dh, At<float>(pass, work.dc), diffs},
                  of_step);
      const void* const factor = AsFactor(
          pass, precision_, diffs, 4 * of_step,
          At<uint16_t>(pass, work.diff_factor) + (IsHalf(precision_) ? 4 * k * of_step : 0));
      if (k > 0) {
        // dh[n, units] = diffs[n, 4 units] U[4 units, units]
        RowMajorProduct product = OfStep(pass, directions_[d].recurrent);
        product.n = units_;
        product.k = 4 * units_;
        product.a = factor;
        product.c = dh;
        pass.gemm.Multiply(product);
      }
    }
    return IsHalf(precision_) ? At<void>(pass, work.diff_factor) : all;
  }

  // dU[4 units, units] = diffs^T h, of the diffs from the second step on and the h up to the one
  // before the last.
  void RecurrentGradient(const Pass& pass, const Work& work, const Direction& direction,
                         const States& states, const void* diffs) const {
    float* const gradient = pass.gradient + direction.recurrent.offset;
    if (steps_ == 1) {
      pass.stream.Zero(gradient, direction.recurrent.size * sizeof(float));
      return;
    }
    const uint64_t of_step = pass.examples * units_;
    RowMajorProduct product;
    product.transpose_a = true;
    product.m = 4 * units_;
    product.n = units_;
    product.k = (steps_ - 1) * pass.examples;
    product.a = static_cast<const char*>(diffs) + 4 * of_step * (IsHalf(precision_) ? 2 : 4);
    product.b = AsFactor(pass, precision_, states.h, (steps_ - 1) * of_step,
                         At<uint16_t>(pass, work.factor));
    product.c = gradient;
    pass.gemm.Multiply(product);
  }

  uint64_t steps_;
  uint64_t features_;
  uint64_t units_;
  uint64_t told_units_;
  bool sequences_;
  Precision precision_;
  std::vector<Direction> directions_;
};

}  // namespace

std::unique_ptr<DeviceLayer> MakeLstm(const LayerPlan& plan, Precision precision) {
  return std::make_unique<Lstm>(plan, precision);
}

}  // namespace monsoon::cuda
