#include <algorithm>
#include <cmath>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// One direction over one sample.
class Direction {
 public:
  Direction(const LayerPlan& plan, bool backward)
      : weight_(plan.tensors[backward ? 3 : 0]),
        recurrent_(plan.tensors[backward ? 4 : 1]),
        bias_(plan.tensors[backward ? 5 : 2]),
        backward_(backward),
        steps_(plan.input.steps),
        features_(plan.input.features()),
        units_(plan.units) {}

  // What the equations name, of each step in the order of reading; h and c also of the step
  // before the first.
  struct States {
    std::vector<std::vector<double>> gates;  // i, f, g, o
    std::vector<std::vector<double>> c;
    std::vector<std::vector<double>> h;
  };

  // The place in the sample of the step that is read k-th.
  size_t Step(size_t k) const { return backward_ ? steps_ - 1 - k : k; }

  States Run(std::span<const double> parameters, std::span<const double> x) const {
    const std::vector<double> zero(units_, 0.0);
    States states{{}, {zero}, {zero}};
    for (size_t k = 0; k < steps_; ++k) {
      std::vector<double> gates(4 * units_);
      for (size_t row = 0; row < gates.size(); ++row) {
        double sum = parameters[bias_.offset + row];
        for (size_t i = 0; i < features_; ++i) {
          sum += parameters[weight_.offset + row * features_ + i] * x[Step(k) * features_ + i];
        }
        for (size_t u = 0; u < units_; ++u) {
          sum += parameters[recurrent_.offset + row * units_ + u] * states.h[k][u];
        }
        const bool is_g = row / units_ == 2;
        gates[row] = is_g ? std::tanh(sum) : Sigmoid(sum);
      }
      std::vector<double> c(units_);
      std::vector<double> h(units_);
      for (size_t u = 0; u < units_; ++u) {
        c[u] = gates[units_ + u] * states.c[k][u] + gates[u] * gates[2 * units_ + u];
        h[u] = gates[3 * units_ + u] * std::tanh(c[u]);
      }
      states.gates.push_back(std::move(gates));
      states.c.push_back(std::move(c));
      states.h.push_back(std::move(h));
    }
    return states;
  }

  // `dh` has dloss/dh of each step in the order of reading, as far as the layer's output goes.
  // Adds to `dx` and `gradient`.
  void Backward(std::span<const double> parameters, std::span<const double> x, const States& states,
                std::vector<std::vector<double>> dh, std::span<double> dx,
                std::span<double> gradient) const {
    std::vector<double> dc(units_, 0.0);
    for (size_t k = steps_; k-- > 0;) {
      const std::vector<double> dgates = GateDiffs(states, k, dh[k], &dc);
      for (size_t row = 0; row < dgates.size(); ++row) {
        gradient[bias_.offset + row] += dgates[row];
        for (size_t i = 0; i < features_; ++i) {
          const size_t w = weight_.offset + row * features_ + i;
          gradient[w] += dgates[row] * x[Step(k) * features_ + i];
          dx[Step(k) * features_ + i] += dgates[row] * parameters[w];
        }
        for (size_t u = 0; u < units_; ++u) {
          const size_t w = recurrent_.offset + row * units_ + u;
          gradient[w] += dgates[row] * states.h[k][u];
          if (k > 0) {
            dh[k - 1][u] += dgates[row] * parameters[w];
          }
        }
      }
    }
  }

 private:
  // dloss by what the gates' functions take; moves `dc` to the step before.
  std::vector<double> GateDiffs(const States& states, size_t k, const std::vector<double>& dh,
                                std::vector<double>* dc) const {
    const std::vector<double>& gates = states.gates[k];
    std::vector<double> diffs(4 * units_);
    for (size_t u = 0; u < units_; ++u) {
      const double i = gates[u];
      const double f = gates[units_ + u];
      const double g = gates[2 * units_ + u];
      const double o = gates[3 * units_ + u];
      const double tanh_c = std::tanh(states.c[k + 1][u]);
      const double diff = (*dc)[u] + dh[u] * o * (1 - tanh_c * tanh_c);
      diffs[u] = diff * g * i * (1 - i);
      diffs[units_ + u] = diff * states.c[k][u] * f * (1 - f);
      diffs[2 * units_ + u] = diff * i * (1 - g * g);
      diffs[3 * units_ + u] = dh[u] * tanh_c * o * (1 - o);
      (*dc)[u] = diff * f;
    }
    return diffs;
  }

  TensorSlot weight_;
  TensorSlot recurrent_;
  TensorSlot bias_;
  bool backward_;
  size_t steps_;
  size_t features_;
  size_t units_;
};

class Lstm : public ReferenceLayer {
 public:
  explicit Lstm(const LayerPlan& plan)
      : input_(plan.input), output_(plan.output), units_(plan.units), sequences_(plan.sequences) {
    directions_.emplace_back(plan, false);
    if (plan.bidirectional) {
      directions_.emplace_back(plan, true);
    }
  }

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t n = 0; n < pass.examples; ++n) {
      for (size_t d = 0; d < directions_.size(); ++d) {
        const Direction::States states =
            directions_[d].Run(pass.parameters, in.subspan(n * input_.size(), input_.size()));
        for (size_t k = FirstTold(); k < input_.steps; ++k) {
          std::copy(states.h[k + 1].begin(), states.h[k + 1].end(),
                    out.begin() + static_cast<ptrdiff_t>(Place(n, d, k)));
        }
      }
    }
  }

  void Backward(const Pass& pass, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> gradient) override {
    std::fill(in_diff.begin(), in_diff.end(), 0.0);
    for (size_t n = 0; n < pass.examples; ++n) {
      const std::span<const double> x = in.subspan(n * input_.size(), input_.size());
      for (size_t d = 0; d < directions_.size(); ++d) {
        std::vector<std::vector<double>> dh(input_.steps, std::vector<double>(units_, 0.0));
        for (size_t k = FirstTold(); k < input_.steps; ++k) {
          std::copy_n(out_diff.begin() + static_cast<ptrdiff_t>(Place(n, d, k)), units_,
                      dh[k].begin());
        }
        directions_[d].Backward(pass.parameters, x, directions_[d].Run(pass.parameters, x),
                                std::move(dh), in_diff.subspan(n * input_.size(), input_.size()),
                                gradient);
      }
    }
  }

 private:
  // The first step, in the order of reading, that is part of the output.
  size_t FirstTold() const { return sequences_ ? 0 : input_.steps - 1; }
  size_t Place(size_t n, size_t direction, size_t k) const {
    const size_t step = sequences_ ? directions_[direction].Step(k) : 0;
    return (n * output_.steps + step) * output_.features() + direction * units_;
  }

  Extent input_;
  Extent output_;
  size_t units_;
  bool sequences_;
  std::vector<Direction> directions_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeLstm(const LayerPlan& plan) {
  return std::make_unique<Lstm>(plan);
}

}  // namespace monsoon::reference
