#include "worker/group/evaluator.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/finite.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

uint64_t Capacity(uint32_t batch_size, const DataSource& source) {
  return std::min<uint64_t>(batch_size == 0 ? kDefaultEvaluationBatch : batch_size,
                            source.examples());
}

// The samples from `first` on, as many as fit.
absl::Status GatherNext(const DataSource& source, uint64_t first, std::vector<uint32_t>* indices,
                        Batch* batch) {
  indices->resize(std::min<uint64_t>(batch->capacity(), source.examples() - first));
  std::iota(indices->begin(), indices->end(), static_cast<uint32_t>(first));
  RETURN_IF_ERROR(source.Gather(*indices, batch));
  batch->examples = indices->size();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EvaluationResult> EvaluateAll(ReplicaGroup* group, const DataSource& source,
                                             uint32_t batch_size,
                                             const std::function<bool()>& stopped,
                                             TestFigures* figures) {
  Batch batch(Capacity(batch_size, source), source.format());
  std::vector<uint32_t> indices;
  EvaluationResult total;
  TestFigures own;
  TestFigures& all = figures == nullptr ? own : *figures;
  uint64_t first = 0;
  while (first < source.examples()) {
    if (stopped && stopped()) {
      return absl::CancelledError("evaluation was stopped");
    }
    while (first < source.examples() && group->room() > 0) {
      RETURN_IF_ERROR(GatherNext(source, first, &indices, &batch));
      group->Add(&batch, StepKey());
      first += indices.size();
    }
    RETURN_IF_ERROR(group->Evaluate());
    for (size_t i = 0; i < group->size(); ++i) {
      const EvaluationResult& part = group->evaluation(i);
      total.loss_sum += part.loss_sum;
      total.correct += part.correct;
      total.examples += part.examples;
      total.unjudged += part.unjudged;
      all.Add(part.judgement, part.examples);
    }
  }
  const auto examples = static_cast<double>(total.examples);
  total.metrics =
      all.Metrics(total.loss_sum / examples,
                  total.unjudged > 0 ? std::nullopt : std::make_optional(total.correct / examples));
  return total;
}

absl::Status PredictAll(Network* network, const LossPlan& loss, const DataSource& source,
                        uint32_t batch_size,
                        const std::function<absl::Status(const PredictionSpans&)>& take) {
  Batch batch(Capacity(batch_size, source), source.format());
  std::vector<uint32_t> indices;
  const size_t values = loss.steps * loss.outputs;
  std::vector<float> predictions;
  std::vector<uint32_t> labels;
  for (uint64_t first = 0; first < source.examples(); first += batch.examples) {
    RETURN_IF_ERROR(GatherNext(source, first, &indices, &batch));
    predictions.resize(batch.examples * values);
    labels.resize(batch.examples * loss.steps);
    const PredictionSpans spans{predictions, labels};
    if (const absl::Status status = network->Predict(batch, spans); !status.ok()) {
      return Annotate(status, absl::StrCat("samples from ", first, " on"));
    }
    if (const std::optional<uint64_t> at = FirstNonFinite(predictions)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model's outputs for sample ", first + *at / values, " are not finite"));
    }
    RETURN_IF_ERROR(take(spans));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
