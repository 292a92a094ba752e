#include "worker/nn/test_figures.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/nn/predictions.h"

namespace monsoon {
namespace {

constexpr uint64_t kBest = 5;
constexpr uint64_t kBytes = 256;

// How many outputs come before the label's; of equal ones the first comes first, and
// NaN, whosever it is, before the label.
template <typename Value>
uint64_t RankOf(std::span<const Value> row, size_t label) {
  uint64_t before = 0;
  for (size_t c = 0; c < row.size(); ++c) {
    before +=
        c != label && (!(row[c] <= row[label]) || (row[c] == row[label] && c < label)) ? 1 : 0;
  }
  return before;
}

template <typename Value>
double SquaredError(std::span<const Value> outputs, const LossTargets& targets) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const double target = targets.targets.empty() ? targets.labels[i] : targets.targets[i];
    sum += (outputs[i] - target) * (outputs[i] - target);
  }
  return sum;
}

}  // namespace

template <typename Value>
Judgement Judge::OfValues(std::span<const Value> outputs, const LossTargets& targets) {
  Judgement judgement;
  if (plan_.kind == LossKind::kMeanSquaredError) {
    judgement.squared_error =
        SquaredError(outputs, targets) / static_cast<double>(plan_.steps * plan_.outputs);
    return judgement;
  }
  judgement.is_of_bytes = plan_.kind == LossKind::kSoftmaxCrossEntropy && plan_.steps > 1 &&
                          plan_.outputs == kBytes && plan_.class_weights.empty() &&
                          plan_.label_smoothing == 0 && targets.weights.empty();
  const bool yes_or_no = plan_.is_yes_or_no();
  if (plan_.steps > 1 || (!targets.targets.empty() && !yes_or_no)) {
    return judgement;
  }
  predictions_.clear();
  judgement.has_scores = yes_or_no;
  if (!yes_or_no && plan_.outputs >= kBest) {
    judgement.top5 = 0;
  }
  for (size_t n = 0; n < targets.examples; ++n) {
    const std::span<const Value> row = outputs.subspan(n * plan_.outputs, plan_.outputs);
    if (yes_or_no) {
      const uint32_t label =
          targets.targets.empty() ? targets.labels[n] : (targets.targets[n] >= 0.5f ? 1 : 0);
      predictions_.push_back({label, PredictedLabel(plan_, row), static_cast<float>(row[0])});
      continue;
    }
    const uint32_t label = targets.labels[n];
    predictions_.push_back({label, PredictedLabel(plan_, row), 0});
    if (judgement.top5) {
      *judgement.top5 += RankOf(row, label) < kBest ? 1 : 0;
    }
  }
  judgement.predictions = predictions_;
  return judgement;
}

Judgement Judge::Of(std::span<const float> outputs, const LossTargets& targets) {
  return OfValues(outputs, targets);
}

Judgement Judge::Of(std::span<const double> outputs, const LossTargets& targets) {
  return OfValues(outputs, targets);
}

void TestFigures::Add(const Judgement& judgement, uint64_t examples) {
  predictions_.insert(predictions_.end(), judgement.predictions.begin(),
                      judgement.predictions.end());
  has_scores_ = judgement.has_scores;
  is_of_bytes_ = judgement.is_of_bytes;
  examples_ += examples;
  if (judgement.top5) {
    top5_ = top5_.value_or(0) + *judgement.top5;
  }
  if (judgement.squared_error) {
    squared_error_ = squared_error_.value_or(0) + *judgement.squared_error;
  }
}

std::vector<std::pair<std::string, double>> TestFigures::Metrics(
    double mean_loss, std::optional<double> accuracy) const {
  std::vector<std::pair<std::string, double>> metrics;
  const auto examples = static_cast<double>(examples_);
  if (accuracy) {
    metrics.emplace_back("accuracy", *accuracy);
  }
  metrics.emplace_back("loss", mean_loss);
  if (top5_) {
    metrics.emplace_back("top5", static_cast<double>(*top5_) / examples);
  }
  if (const auto area = has_scores_ ? AreaUnderCurve(predictions_) : std::nullopt) {
    metrics.emplace_back("auc", *area);
  }
  if (squared_error_) {
    metrics.emplace_back("mse", *squared_error_ / examples);
  }
  if (is_of_bytes_) {
    metrics.emplace_back("bits_per_byte", mean_loss / std::numbers::ln2);
  }
  if (accuracy && metrics.size() == 2) {
    metrics.clear();
  }
  return metrics;
}

std::optional<double> AreaUnderCurve(std::span<const Prediction> predictions) {
  const auto is_nan = [](const Prediction& one) { return std::isnan(one.score); };
  if (std::ranges::any_of(predictions, is_nan)) {
    return std::nullopt;
  }
  std::vector<Prediction> sorted(predictions.begin(), predictions.end());
  std::ranges::sort(sorted, {}, &Prediction::score);
  // Twice the number of pairs won, so that halves are whole numbers.
  uint64_t won = 0, yes = 0, no = 0;
  for (size_t begin = 0; begin < sorted.size();) {
    uint64_t equal_yes = 0, equal_no = 0;
    const float score = sorted[begin].score;
    for (; begin < sorted.size() && sorted[begin].score == score; ++begin) {
      (sorted[begin].label == 1 ? equal_yes : equal_no) += 1;
    }
    won += equal_yes * (2 * no + equal_no);
    yes += equal_yes;
    no += equal_no;
  }
  if (yes == 0 || no == 0) {
    return std::nullopt;
  }
  return static_cast<double>(won) / (2 * static_cast<double>(yes) * static_cast<double>(no));
}

}  // namespace monsoon
