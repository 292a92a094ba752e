#include "worker/backend/reference/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/backend/reference/softmax_cross_entropy.h"
#include "worker/nn/predictions.h"

namespace monsoon::reference {
namespace {

// log(1 + e^x).
double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double Sigmoid(double x) {
  const double small = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + small) : small / (1 + small);
}

// What an output costs, and the slope of that.
struct Term {
  double loss = 0, slope = 0;
};

// -target * log sigmoid(x) - (1 - target) * log sigmoid(-x). Without a difference of numbers that
// are near one another, so that small ones keep their digits.
Term YesOrNo(double x, double target) {
  if (!std::isfinite(x)) {
    return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  }
  return {target * Softplus(-x) + (1 - target) * Softplus(x),
          (1 - target) * Sigmoid(x) - target * Sigmoid(-x)};
}

// Everything at one step of one sample. The label is of no meaning where there are targets.
struct Row {
  std::span<const double> outputs;
  uint32_t label = 0;
  std::span<const float> targets;  // as many as outputs, or none

  // Of output `c`, without smoothing.
  double TargetOf(const LossPlan& plan, size_t c) const {
    if (!targets.empty()) {
      return targets[c];
    }
    return plan.outputs == 1 ? label : (c == label ? 1.0 : 0.0);
  }
};

// The plan's smoothing with the softmax: each class's target is smoothing / classes, and the
// label's 1 - smoothing more.
double SmoothedSoftmax(const LossPlan& plan, const Row& row, std::span<double> diff) {
  const auto classes = static_cast<double>(row.outputs.size());
  const double largest = *std::ranges::max_element(row.outputs);
  const double share = plan.label_smoothing / classes;
  double sum = 0, loss = 0;
  for (const double output : row.outputs) {
    sum += std::exp(output - largest);
    loss += share * (largest - output);
  }
  loss += std::log(sum) + (1 - plan.label_smoothing) * (largest - row.outputs[row.label]);
  for (size_t c = 0; c < diff.size(); ++c) {
    diff[c] = std::exp(row.outputs[c] - largest) / sum - share -
              (c == row.label ? 1 - plan.label_smoothing : 0);
  }
  return loss;
}

double RowLoss(const LossPlan& plan, const Row& row, std::span<double> diff) {
  if (plan.kind == LossKind::kSoftmaxCrossEntropy) {
    return plan.label_smoothing > 0
               ? SmoothedSoftmax(plan, row, diff)
               : SoftmaxCrossEntropy(row.outputs, std::span(&row.label, 1), diff).loss;
  }
  const bool sums = plan.kind == LossKind::kOneVersusAllLogistic;
  const double share = sums ? 1 : 1 / static_cast<double>(row.outputs.size());
  double loss = 0;
  for (size_t c = 0; c < row.outputs.size(); ++c) {
    const double output = row.outputs[c];
    double target = row.TargetOf(plan, c);
    Term term;
    if (plan.kind == LossKind::kMeanSquaredError) {
      term = {(output - target) * (output - target), 2 * (output - target)};
    } else {
      target = (1 - plan.label_smoothing) * target + plan.label_smoothing / 2;
      term = YesOrNo(output, target);
    }
    loss += share * term.loss;
    if (!diff.empty()) {
      diff[c] = share * term.slope;
    }
  }
  return loss;
}

bool IsJudged(const LossPlan& plan, const LossTargets& targets) {
  return plan.kind != LossKind::kMeanSquaredError &&
         (targets.targets.empty() || plan.is_yes_or_no());
}

bool IsRight(const LossPlan& plan, const Row& row) {
  const uint32_t label = plan.is_yes_or_no() ? (row.TargetOf(plan, 0) >= 0.5 ? 1 : 0) : row.label;
  return PredictedLabel(plan, row.outputs) == label;
}

}  // namespace

LossSums ComputeLoss(const LossPlan& plan, std::span<const double> outputs,
                     const LossTargets& targets, std::span<double> diff) {
  const size_t rows = targets.examples * plan.steps;
  const bool judged = IsJudged(plan, targets);
  LossSums sums;
  for (size_t i = 0; i < rows; ++i) {
    const size_t at = i * plan.outputs;
    Row row{outputs.subspan(at, plan.outputs), targets.labels.empty() ? 0 : targets.labels[i], {}};
    if (!targets.targets.empty()) {
      row.targets = targets.targets.subspan(at, plan.outputs);
    }
    double weight = targets.weights.empty() ? 1 : targets.weights[i / plan.steps];
    if (!plan.class_weights.empty()) {
      weight *= plan.class_weights[row.label];
    }
    const std::span<double> row_diff = diff.empty() ? diff : diff.subspan(at, plan.outputs);
    sums.loss += weight * RowLoss(plan, row, row_diff);
    for (double& value : row_diff) {
      value *= weight / static_cast<double>(rows);
    }
    sums.correct += judged && IsRight(plan, row) ? 1 : 0;
  }
  sums.loss /= static_cast<double>(plan.steps);
  sums.correct /= static_cast<double>(plan.steps);
  sums.unjudged = judged ? 0 : targets.examples;
  return sums;
}

}  // namespace monsoon::reference
