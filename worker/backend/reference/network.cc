#include "worker/backend/reference/network.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "worker/backend/reference/loss.h"
#include "worker/nn/check_batch.h"
#include "worker/nn/predictions.h"

namespace monsoon::reference {
ReferenceNetwork::ReferenceNetwork(NetworkPlan plan)
    : plan_(std::move(plan)), values_(plan_.layers.size() + 1), judge_(plan_.loss) {
  for (const LayerPlan& layer : plan_.layers) {
    layers_.push_back(MakeLayer(layer));
  }
}

void ReferenceNetwork::SetParameters(std::span<const float> parameters) {
  CHECK_EQ(parameters.size(), plan_.parameter_floats);
  parameters_ = parameters;
}

ReferenceLayer::Values ReferenceNetwork::InputsOf(size_t layer) const {
  ReferenceLayer::Values inputs;
  for (const ValueIndex input : plan_.layers[layer].inputs) {
    inputs.push_back(values_[input]);
  }
  return inputs;
}

void ReferenceNetwork::Forward(const Pass& pass, const Batch& batch) {
  values_[0].assign(batch.inputs.data(), batch.inputs.data() + batch.examples * plan_.input.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    values_[i + 1].assign(batch.examples * plan_.layers[i].output.size(), 0.0);
    layers_[i]->ForwardJoined(pass, InputsOf(i), values_[i + 1]);
  }
}

absl::StatusOr<StepResult> ReferenceNetwork::LossAndGradient(std::span<const double> parameters,
                                                             const Batch& batch, const StepKey& key,
                                                             std::span<double> gradient) {
  RETURN_IF_ERROR(CheckBatch(plan_, batch));
  const Pass pass{batch.examples, &key, parameters};
  Forward(pass, batch);
  std::vector<double> diff(gradient.empty() ? 0 : values_.back().size());
  const LossSums sums = ComputeLoss(plan_.loss, values_.back(), TargetsOf(batch), diff);
  const StepResult result{.loss_mean = sums.loss / static_cast<double>(batch.examples),
                          .correct = sums.correct,
                          .examples = batch.examples,
                          .unjudged = sums.unjudged};
  if (gradient.empty()) {
    return result;
  }
  CHECK_EQ(gradient.size(), plan_.parameter_floats);
  std::fill(gradient.begin(), gradient.end(), 0.0);
  std::vector<std::vector<double>> diffs(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    diffs[i].assign(values_[i].size(), 0.0);
  }
  diffs.back() = std::move(diff);
  for (size_t i = layers_.size(); i-- > 0;) {
    const ReferenceLayer::Values inputs = InputsOf(i);
    std::vector<std::vector<double>> parts;
    for (const std::span<const double> input : inputs) {
      parts.emplace_back(input.size());
    }
    layers_[i]->BackwardJoined(pass, inputs, values_[i + 1], diffs[i + 1],
                               ReferenceLayer::Diffs(parts.begin(), parts.end()), gradient);
    for (size_t k = 0; k < parts.size(); ++k) {
      std::vector<double>& sum = diffs[plan_.layers[i].inputs[k]];
      std::ranges::transform(sum, parts[k], sum.begin(), std::plus<>());
    }
  }
  return result;
}

absl::StatusOr<StepResult> ReferenceNetwork::LossAndGradient(const Batch& batch, const StepKey& key,
                                                             std::span<float> gradient) {
  const std::vector<double> parameters(parameters_.begin(), parameters_.end());
  std::vector<double> precise(gradient.size());
  ASSIGN_OR_RETURN(const StepResult result, LossAndGradient(parameters, batch, key, precise));
  std::transform(precise.begin(), precise.end(), gradient.begin(),
                 [](double value) { return static_cast<float>(value); });
  return result;
}

absl::StatusOr<EvaluationResult> ReferenceNetwork::Evaluate(const Batch& batch) {
  RETURN_IF_ERROR(CheckBatch(plan_, batch));
  const std::vector<double> parameters(parameters_.begin(), parameters_.end());
  Forward(Pass{batch.examples, nullptr, parameters}, batch);
  const LossTargets targets = TargetsOf(batch);
  const LossSums sums = ComputeLoss(plan_.loss, values_.back(), targets, {});
  return EvaluationResult{.loss_sum = sums.loss,
                          .correct = sums.correct,
                          .examples = batch.examples,
                          .unjudged = sums.unjudged,
                          .judgement = judge_.Of(std::span<const double>(values_.back()), targets)};
}

absl::Status ReferenceNetwork::Predict(const Batch& batch, const PredictionSpans& predictions) {
  RETURN_IF_ERROR(CheckSamples(plan_, batch));
  const std::vector<double> parameters(parameters_.begin(), parameters_.end());
  Forward(Pass{batch.examples, nullptr, parameters}, batch);
  PredictionsOf(plan_.loss, values_.back(), predictions);
  return absl::OkStatus();
}

std::string ReferenceNetwork::Fingerprint() const { return "reference double"; }

}  // namespace monsoon::reference
