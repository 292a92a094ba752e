#include "worker/replica/evaluator.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/status.h"

namespace monsoon {

absl::StatusOr<EvaluationResult> EvaluateAll(Network* network, const DataSource& source,
                                             uint32_t batch_size,
                                             const std::function<bool()>& stopped) {
  const uint64_t capacity =
      std::min<uint64_t>(batch_size == 0 ? kDefaultEvaluationBatch : batch_size, source.examples());
  Batch batch(capacity, source.values_per_example());
  std::vector<uint32_t> indices(capacity);
  EvaluationResult total;
  for (uint64_t first = 0; first < source.examples(); first += capacity) {
    if (stopped && stopped()) {
      return absl::CancelledError("evaluation was stopped");
    }
    indices.resize(std::min(capacity, source.examples() - first));
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(first));
    source.Gather(indices, &batch);
    batch.examples = indices.size();
    ASSIGN_OR_RETURN(const EvaluationResult part, network->Evaluate(batch));
    total.loss_sum += part.loss_sum;
    total.correct += part.correct;
    total.examples += part.examples;
  }
  return total;
}

}  // namespace monsoon
