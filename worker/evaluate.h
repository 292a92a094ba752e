// `worker --evaluate`: evaluates a model on a job's test set in this process, without a
// cluster.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/local_model.h"

namespace monsoon {

struct ModelEvaluation {
  double test_accuracy = 0;  // in [0, 1]
  double test_loss = 0;      // mean over the samples
  uint64_t examples = 0;
};

// InvalidArgument for a job without a test set; DataLoss for samples that cannot be
// read.
absl::StatusOr<ModelEvaluation> EvaluateModel(const LocalModel& model, int threads);

// {"schema_version":1,"test_accuracy":...,"test_loss":...,"examples":...}
std::string ToJson(const ModelEvaluation& evaluation);

}  // namespace monsoon
