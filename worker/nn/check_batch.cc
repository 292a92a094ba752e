#include "worker/nn/check_batch.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {

absl::Status CheckSamples(const NetworkPlan& plan, const Batch& batch) {
  if (batch.examples == 0) {
    return absl::InvalidArgumentError("the batch is empty");
  }
  if (batch.values != plan.input.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "samples have ", batch.values, " values, the model's input has ", plan.input.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const NetworkPlan& plan, const Batch& batch) {
  RETURN_IF_ERROR(CheckSamples(plan, batch));
  for (size_t i = 0; i < batch.examples; ++i) {
    if (batch.labels[i] >= plan.classes) {
      return absl::InvalidArgumentError(absl::StrCat("label ", batch.labels[i], " of sample ", i,
                                                     " of the batch; the model has ", plan.classes,
                                                     " outputs"));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
