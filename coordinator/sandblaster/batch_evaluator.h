// BatchEvaluator: where a minimiser's thread asks the coordinator for evaluations of
// the batch. Behind it replicas compute contributions and send their gradients
// to the shards; only the loss comes back.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace monsoon {

struct BatchResult {
  double loss_sum = 0;    // over the samples, each contribution once
  uint64_t examples = 0;  // samples in the sum
  bool finite = true;     // false: some contribution's loss or gradient is not
};

// How a minimiser ended.
struct BatchEnd {
  std::string reason;  // EndReasonName
  std::string detail;  // MinimizerResult::detail
};

class BatchEvaluator {
 public:
  virtual ~BatchEvaluator() = default;

  // Lets replicas compute the batch's contributions at the shards' vector `w`,
  // for the evaluation that the shards have opened. `probe`: contribution 0 only.
  // Blocks until every contribution is in the shards' sums, or one is not finite.
  // CANCELLED when the job ends meanwhile.
  virtual absl::StatusOr<BatchResult> Evaluate(uint64_t evaluation, const std::string& w,
                                               bool probe) = 0;
};

}  // namespace monsoon
