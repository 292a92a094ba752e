#include "worker/nn/check_batch.h"

#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

absl::Status CheckIds(const NetworkPlan& plan, const Batch& batch) {
  const auto limit = static_cast<float>(plan.id_limit);  // up to 2^24: exact
  const std::span<const float> ids = batch.inputs.span().first(batch.examples * batch.values);
  for (size_t i = 0; i < ids.size(); ++i) {
    const float id = ids[i];
    // Not where it is NaN.
    if (!(id >= 0 && id < limit && id == std::trunc(id))) {
      return absl::DataLossError(absl::StrCat(
          "sample ", i / batch.values, " of the batch has ", id, " at step ", i % batch.values,
          "; an id is a whole number from 0 and below the embedding's ", plan.id_limit, " rows"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(const LossPlan& loss, const Batch& batch) {
  if (loss.kind != LossKind::kBinaryCrossEntropy && loss.kind != LossKind::kMeanSquaredError) {
    return absl::InvalidArgumentError(
        "samples have targets, the model's loss needs labels: use MEAN_SQUARED_ERROR or "
        "BINARY_CROSS_ENTROPY");
  }
  if (!loss.class_weights.empty()) {
    return absl::InvalidArgumentError(
        "samples have targets in place of labels: loss_settings.class_weight has no meaning");
  }
  const std::span<const float> targets =
      batch.targets.span().first(batch.examples * batch.targets_per_example);
  for (size_t i = 0; i < targets.size() && loss.kind == LossKind::kBinaryCrossEntropy; ++i) {
    if (!(targets[i] >= 0 && targets[i] <= 1)) {
      return absl::DataLossError(
          absl::StrCat("target ", targets[i], " of sample ", i / batch.targets_per_example,
                       " of the batch; BINARY_CROSS_ENTROPY needs them in [0, 1]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSamples(const NetworkPlan& plan, const Batch& batch) {
  if (batch.examples == 0) {
    return absl::InvalidArgumentError("the batch is empty");
  }
  if (batch.values != plan.input.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "samples have ", batch.values, " values, the model's input has ", plan.input.size()));
  }
  return plan.id_limit == 0 ? absl::OkStatus() : CheckIds(plan, batch);
}

absl::Status CheckBatch(const NetworkPlan& plan, const Batch& batch) {
  RETURN_IF_ERROR(CheckSamples(plan, batch));
  const LossPlan& loss = plan.loss;
  if (batch.targets_per_example > 0) {
    if (batch.targets_per_example != loss.steps * loss.outputs) {
      return absl::InvalidArgumentError(absl::StrCat("samples have ", batch.targets_per_example,
                                                     " targets, the model has ",
                                                     loss.steps * loss.outputs, " outputs"));
    }
    return CheckTargets(loss, batch);
  }
  if (loss.kind == LossKind::kMeanSquaredError && loss.outputs > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples have a label, MEAN_SQUARED_ERROR needs ", loss.steps * loss.outputs,
                     " targets for the model's outputs"));
  }
  if (batch.labels_per_example != loss.steps) {
    return absl::InvalidArgumentError(absl::StrCat("samples have ", batch.labels_per_example,
                                                   " labels, the model's output has ", loss.steps,
                                                   loss.steps == 1 ? " step" : " steps"));
  }
  const size_t labels = batch.examples * batch.labels_per_example;
  for (size_t i = 0; i < labels && loss.classes > 0; ++i) {
    if (batch.labels[i] >= loss.classes) {
      return absl::DataLossError(
          absl::StrCat("label ", batch.labels[i], " of sample ", i / batch.labels_per_example,
                       " of the batch; the model has ", loss.classes,
                       loss.is_yes_or_no() ? " classes, no and yes" : " outputs"));
    }
  }
  return absl::OkStatus();
}

SampleFormat FormatFor(const NetworkPlan& plan) {
  const LossPlan& loss = plan.loss;
  SampleFormat format{.values = plan.input.size(), .labels = loss.steps};
  if (loss.kind == LossKind::kMeanSquaredError) {
    format.labels = 0;
    format.targets = loss.steps * loss.outputs;
  }
  return format;
}

LossTargets TargetsOf(const Batch& batch) {
  return {.labels = std::span(batch.labels).first(batch.examples * batch.labels_per_example),
          .targets = batch.targets.span().first(batch.examples * batch.targets_per_example),
          .weights = batch.weights.span().empty() ? std::span<const float>()
                                                  : batch.weights.span().first(batch.examples),
          .examples = batch.examples};
}

}  // namespace monsoon
