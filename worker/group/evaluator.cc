#include "worker/group/evaluator.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/status.h"

namespace monsoon {

absl::StatusOr<EvaluationResult> EvaluateAll(ReplicaGroup* group, const DataSource& source,
                                             uint32_t batch_size,
                                             const std::function<bool()>& stopped) {
  const uint64_t capacity =
      std::min<uint64_t>(batch_size == 0 ? kDefaultEvaluationBatch : batch_size, source.examples());
  Batch batch(capacity, source.values_per_example());
  std::vector<uint32_t> indices(capacity);
  EvaluationResult total;
  uint64_t first = 0;
  while (first < source.examples()) {
    if (stopped && stopped()) {
      return absl::CancelledError("evaluation was stopped");
    }
    while (first < source.examples() && group->room() > 0) {
      indices.resize(std::min(capacity, source.examples() - first));
      std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(first));
      source.Gather(indices, &batch);
      batch.examples = indices.size();
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

}  // namespace monsoon
