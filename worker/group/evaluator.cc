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
                                             const std::function<bool()>& stopped) {
  Batch batch(Capacity(batch_size, source), source.format());
  std::vector<uint32_t> indices;
  EvaluationResult total;
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
    }
  }
  return total;
}

absl::Status PredictAll(Network* network, const DataSource& source, uint32_t batch_size,
                        size_t classes,
                        const std::function<absl::Status(std::span<const float>)>& take) {
  Batch batch(Capacity(batch_size, source), source.format());
  std::vector<uint32_t> indices;
  std::vector<float> probabilities;
  for (uint64_t first = 0; first < source.examples(); first += batch.examples) {
    RETURN_IF_ERROR(GatherNext(source, first, &indices, &batch));
    probabilities.resize(batch.examples * classes);
    RETURN_IF_ERROR(network->Predict(batch, probabilities));
    if (const std::optional<uint64_t> at = FirstNonFinite(probabilities)) {
      return absl::InvalidArgumentError(absl::StrCat("the model's outputs for sample ",
                                                     first + *at / classes, " are not finite"));
    }
    RETURN_IF_ERROR(take(probabilities));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
