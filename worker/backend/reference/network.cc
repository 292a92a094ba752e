#include "worker/backend/reference/network.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "worker/backend/reference/activation.h"
#include "worker/backend/reference/conv2d.h"
#include "worker/backend/reference/dense.h"
#include "worker/backend/reference/dropout.h"
#include "worker/backend/reference/pool2d.h"
#include "worker/backend/reference/softmax_cross_entropy.h"
#include "worker/nn/check_batch.h"
#include "worker/nn/softmax.h"

namespace monsoon::reference {
namespace {

std::unique_ptr<ReferenceLayer> MakeLayer(const LayerPlan& plan) {
  switch (plan.kind) {
    case LayerKind::kDense:
      return MakeDense(plan);
    case LayerKind::kConv2d:
      return MakeConv2d(plan);
    case LayerKind::kAveragePool2d:
    case LayerKind::kMaxPool2d:
      return MakePool2d(plan);
    case LayerKind::kRelu:
    case LayerKind::kSigmoid:
    case LayerKind::kTanh:
      return MakeActivation(plan);
    case LayerKind::kDropout:
      return MakeDropout(plan);
    case LayerKind::kFlatten:
      break;
  }
  return nullptr;  // Flattening changes no value in logical order.
}

}  // namespace

ReferenceNetwork::ReferenceNetwork(NetworkPlan plan)
    : plan_(std::move(plan)), values_(plan_.layers.size() + 1) {
  for (const LayerPlan& layer : plan_.layers) {
    layers_.push_back(MakeLayer(layer));
  }
}

void ReferenceNetwork::SetParameters(std::span<const float> parameters) {
  CHECK_EQ(parameters.size(), plan_.parameter_floats);
  parameters_ = parameters;
}

void ReferenceNetwork::Forward(const Pass& pass, const Batch& batch) {
  values_[0].assign(batch.inputs.data(), batch.inputs.data() + batch.examples * plan_.input.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i] == nullptr) {
      values_[i + 1] = values_[i];
      continue;
    }
    values_[i + 1].assign(batch.examples * plan_.layers[i].output.size(), 0.0);
    layers_[i]->Forward(pass, values_[i], values_[i + 1]);
  }
}

absl::StatusOr<StepResult> ReferenceNetwork::LossAndGradient(std::span<const double> parameters,
                                                             const Batch& batch, const StepKey& key,
                                                             std::span<double> gradient) {
  RETURN_IF_ERROR(CheckBatch(plan_, batch));
  const Pass pass{batch.examples, &key, parameters};
  Forward(pass, batch);
  std::vector<double> diff(gradient.empty() ? 0 : values_.back().size());
  const LossSums sums =
      SoftmaxCrossEntropy(values_.back(), std::span(batch.labels).first(batch.examples), diff);
  const StepResult result{sums.loss / static_cast<double>(batch.examples), sums.correct,
                          batch.examples};
  if (gradient.empty()) {
    return result;
  }
  CHECK_EQ(gradient.size(), plan_.parameter_floats);
  std::fill(gradient.begin(), gradient.end(), 0.0);
  for (size_t i = layers_.size(); i-- > 0;) {
    if (layers_[i] == nullptr) {
      continue;
    }
    std::vector<double> in_diff(values_[i].size());
    layers_[i]->Backward(pass, values_[i], values_[i + 1], diff, in_diff, gradient);
    diff = std::move(in_diff);
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
  const LossSums sums =
      SoftmaxCrossEntropy(values_.back(), std::span(batch.labels).first(batch.examples), {});
  return EvaluationResult{sums.loss, sums.correct, batch.examples};
}

absl::Status ReferenceNetwork::Predict(const Batch& batch, std::span<float> probabilities) {
  RETURN_IF_ERROR(CheckSamples(plan_, batch));
  const std::vector<double> parameters(parameters_.begin(), parameters_.end());
  Forward(Pass{batch.examples, nullptr, parameters}, batch);
  Softmax(values_.back(), plan_.classes, probabilities);
  return absl::OkStatus();
}

std::string ReferenceNetwork::Fingerprint() const { return "reference double"; }

}  // namespace monsoon::reference
