// `worker --evaluate`: evaluates a model on a job's test set in this process, without a
// cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/confusion.h"
#include "worker/local_model.h"

namespace monsoon {

// Of more classes the matrix is not written: it would be megabytes.
inline constexpr uint64_t kMostConfusedClasses = 1000;

struct ModelEvaluation {
  std::optional<double> test_accuracy;  // in [0, 1]; nothing where there is none
  double test_loss = 0;                 // mean over the samples
  uint64_t examples = 0;
  // By name, beside these two (worker/nn/test_figures.h).
  std::vector<std::pair<std::string, double>> metrics;
  // Of samples with a class each; nothing: they have none, or too many.
  std::optional<ConfusionMatrix> confusion;
  std::vector<std::string> class_names;  // or empty
};

// InvalidArgument for a job without a test set; DataLoss for samples that cannot be
// read.
absl::StatusOr<ModelEvaluation> EvaluateModel(const LocalModel& model, int threads);

// {"schema_version":1,"test_accuracy":...,"test_loss":...,"examples":...,"metrics":{"top5":...},
//  "classes":[{"name":...,"examples":...,"precision":...,"recall":...}],"confusion":[[...]]}
// with confusion[label][predicted]; null in place of what there is not.
std::string ToJson(const ModelEvaluation& evaluation);

}  // namespace monsoon
