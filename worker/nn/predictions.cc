#include "worker/nn/predictions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "worker/nn/softmax.h"

namespace monsoon {
namespace {

double Sigmoid(double x) {
  const double small = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + small) : small / (1 + small);
}

template <typename Value>
uint32_t LabelOf(const LossPlan& plan, std::span<const Value> row) {
  if (plan.is_yes_or_no()) {
    return row[0] > 0 ? 1 : 0;
  }
  return static_cast<uint32_t>(std::ranges::max_element(row) - row.begin());
}

template <typename Value>
void ConvertValues(const LossPlan& plan, std::span<const Value> outputs,
                   std::span<float> predictions) {
  CHECK_EQ(outputs.size(), predictions.size());
  const PredictionKind kind = PredictionKindOf(plan);
  if (kind == PredictionKind::kProbabilities) {
    Softmax(outputs, plan.outputs, predictions);
    return;
  }
  std::ranges::transform(outputs, predictions.begin(), [kind](Value output) {
    if (!std::isfinite(output)) {
      return std::numeric_limits<float>::quiet_NaN();
    }
    return static_cast<float>(kind == PredictionKind::kValues ? output : Sigmoid(output));
  });
}

template <typename Value>
void Convert(const LossPlan& plan, std::span<const Value> outputs,
             const PredictionSpans& predictions) {
  ConvertValues(plan, outputs, predictions.values);
  if (predictions.labels.empty()) {
    return;
  }
  CHECK_EQ(predictions.labels.size() * plan.outputs, outputs.size());
  for (size_t i = 0; i < predictions.labels.size(); ++i) {
    predictions.labels[i] = LabelOf(plan, outputs.subspan(i * plan.outputs, plan.outputs));
  }
}

}  // namespace

PredictionKind PredictionKindOf(const LossPlan& plan) {
  switch (plan.kind) {
    case LossKind::kSoftmaxCrossEntropy:
      return PredictionKind::kProbabilities;
    case LossKind::kOneVersusAllLogistic:
    case LossKind::kBinaryCrossEntropy:
      return PredictionKind::kIndependentProbabilities;
    case LossKind::kMeanSquaredError:
      break;
  }
  return PredictionKind::kValues;
}

const char* Name(PredictionKind kind) {
  switch (kind) {
    case PredictionKind::kProbabilities:
      return "probabilities";
    case PredictionKind::kIndependentProbabilities:
      return "independent_probabilities";
    case PredictionKind::kValues:
      break;
  }
  return "values";
}

uint32_t PredictedLabel(const LossPlan& plan, std::span<const float> row) {
  return LabelOf(plan, row);
}

uint32_t PredictedLabel(const LossPlan& plan, std::span<const double> row) {
  return LabelOf(plan, row);
}

void PredictionsOf(const LossPlan& plan, std::span<const float> outputs,
                   const PredictionSpans& predictions) {
  Convert(plan, outputs, predictions);
}

void PredictionsOf(const LossPlan& plan, std::span<const double> outputs,
                   const PredictionSpans& predictions) {
  Convert(plan, outputs, predictions);
}

}  // namespace monsoon
