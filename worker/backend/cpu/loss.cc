#include "worker/backend/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/backend/cpu/softmax_cross_entropy.h"
#include "worker/nn/predictions.h"

namespace monsoon::cpu {
namespace {

// One step of one sample, and where its slopes go (or nowhere).
struct Row {
  std::span<const float> outputs;
  std::span<float> diff;
  size_t label = 0;                // of no meaning with targets
  std::span<const float> targets;  // as many as outputs, or none
  float factor = 1;                // of the slopes
};

// As SoftmaxCrossEntropy. Each class's target is smoothing / classes, and the label's
// 1 - smoothing more.
double SoftmaxRow(const Row& row, double smoothing) {
  const auto found = std::max_element(row.outputs.begin(), row.outputs.end());
  const auto top = static_cast<size_t>(found - row.outputs.begin());
  const double share = smoothing / static_cast<double>(row.outputs.size());
  double beside = 0, others = 0, below = 0;  // without the largest; without the label
  for (size_t c = 0; c < row.outputs.size(); ++c) {
    const float down = row.outputs[top] - row.outputs[c];
    const float value = c == top ? 1.0f : std::exp(-down);
    below += down;
    beside += c == top ? 0.0f : value;
    others += c == row.label ? 0.0f : value;
    if (!row.diff.empty()) {
      row.diff[c] = value;
    }
  }
  const double sum = 1.0 + beside;
  for (size_t c = 0; c < row.diff.size(); ++c) {
    const double slope = c == row.label ? smoothing - others / sum : row.diff[c] / sum;
    row.diff[c] = static_cast<float>(slope - share) * row.factor;
  }
  const double label_down = static_cast<double>(row.outputs[top]) - row.outputs[row.label];
  return std::log1p(beside) + (1 - smoothing) * label_down + (smoothing > 0 ? share * below : 0);
}

// The sum over outputs of -t log sigmoid(x) - (1 - t) log sigmoid(-x). Small losses and slopes
// keep their digits: no difference of numbers that are near one another.
template <typename TargetOf>
double LogisticRow(const Row& row, const TargetOf& target_of) {
  double loss = 0;
  for (size_t c = 0; c < row.outputs.size(); ++c) {
    const float x = row.outputs[c];
    const float target = target_of(c);
    const float small = std::exp(-std::abs(x));
    const float near = 1.0f / (1.0f + small), far = small / (1.0f + small);
    const float yes = x >= 0 ? near : far, no = x >= 0 ? far : near;
    // Of 0 times infinity too.
    loss += std::log1p(small) +
            (x >= 0 ? (1.0f - target) * static_cast<double>(x) : -target * static_cast<double>(x));
    loss += std::isfinite(x) ? 0.0 : std::numeric_limits<double>::quiet_NaN();
    if (!row.diff.empty()) {
      row.diff[c] = ((1.0f - target) * yes - target * no) * row.factor;
    }
  }
  return loss;
}

double SquaredRow(const Row& row) {
  double loss = 0;
  for (size_t c = 0; c < row.outputs.size(); ++c) {
    const float target = row.targets.empty() ? static_cast<float>(row.label) : row.targets[c];
    const float error = row.outputs[c] - target;
    loss += static_cast<double>(error) * error;
    if (!row.diff.empty()) {
      row.diff[c] = 2 * error * row.factor;
    }
  }
  return loss;
}

double BinaryRow(const Row& row, float smoothing) {
  const auto smoothed = [smoothing](float target) {
    return (1 - smoothing) * target + smoothing / 2;
  };
  if (!row.targets.empty()) {
    return LogisticRow(row, [&](size_t c) { return smoothed(row.targets[c]); });
  }
  if (row.outputs.size() == 1) {
    return LogisticRow(row, [&](size_t) { return smoothed(static_cast<float>(row.label)); });
  }
  return LogisticRow(row, [&](size_t c) { return smoothed(c == row.label ? 1.0f : 0.0f); });
}

double RowLoss(const LossPlan& plan, const Row& row) {
  switch (plan.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      return SoftmaxRow(row, plan.label_smoothing);
    case LossKind::kOneVersusAllLogistic:
      return LogisticRow(row, [&row](size_t c) { return c == row.label ? 1.0f : 0.0f; });
    case LossKind::kBinaryCrossEntropy:
      return BinaryRow(row, static_cast<float>(plan.label_smoothing));
    case LossKind::kMeanSquaredError:
      return SquaredRow(row);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

bool IsRight(const LossPlan& plan, const Row& row) {
  const bool by_target = plan.is_yes_or_no() && !row.targets.empty();
  const size_t label = by_target ? (row.targets[0] >= 0.5f ? 1 : 0) : row.label;
  return PredictedLabel(plan, row.outputs) == label;
}

}  // namespace

LossSums ComputeLoss(const LossPlan& plan, std::span<const float> outputs,
                     const LossTargets& targets, std::span<float> diff) {
  if (plan.kind == LossKind::kSoftmaxCrossEntropy && plan.class_weights.empty() &&
      plan.label_smoothing == 0 && targets.weights.empty()) {
    const EvaluationResult sums = SoftmaxCrossEntropy(outputs, targets.labels, diff);
    return {sums.loss_sum / static_cast<double>(plan.steps),
            sums.correct / static_cast<double>(plan.steps)};
  }
  const bool judged =
      plan.kind != LossKind::kMeanSquaredError && (targets.targets.empty() || plan.is_yes_or_no());
  const bool means =
      plan.kind == LossKind::kBinaryCrossEntropy || plan.kind == LossKind::kMeanSquaredError;
  const double share = means ? 1.0 / static_cast<double>(plan.outputs) : 1.0;
  const size_t rows = targets.examples * plan.steps;
  LossSums sums;
  for (size_t i = 0; i < rows; ++i) {
    const size_t at = i * plan.outputs;
    Row row{.outputs = outputs.subspan(at, plan.outputs),
            .diff = diff.empty() ? diff : diff.subspan(at, plan.outputs),
            .label = targets.labels.empty() ? 0 : targets.labels[i],
            .targets = targets.targets.empty() ? targets.targets
                                               : targets.targets.subspan(at, plan.outputs)};
    double weight = targets.weights.empty() ? share : share * targets.weights[i / plan.steps];
    weight *= plan.class_weights.empty() ? 1.0 : plan.class_weights[row.label];
    row.factor = static_cast<float>(weight / static_cast<double>(rows));
    sums.loss += weight * RowLoss(plan, row);
    sums.correct += judged && IsRight(plan, row) ? 1 : 0;
  }
  sums.loss /= static_cast<double>(plan.steps);
  sums.correct /= static_cast<double>(plan.steps);
  sums.unjudged = judged ? 0 : targets.examples;
  return sums;
}

}  // namespace monsoon::cpu
