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
void Convert(const LossPlan& plan, std::span<const Value> outputs, std::span<float> predictions) {
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

void PredictionsOf(const LossPlan& plan, std::span<const float> outputs,
                   std::span<float> predictions) {
  Convert(plan, outputs, predictions);
}

void PredictionsOf(const LossPlan& plan, std::span<const double> outputs,
                   std::span<float> predictions) {
  Convert(plan, outputs, predictions);
}

}  // namespace monsoon
