#include "worker/evaluate.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/json/json_writer.h"
#include "worker/backend/backend.h"
#include "worker/data/job_data.h"
#include "worker/group/evaluator.h"
#include "worker/group/replica_group.h"

namespace monsoon {

absl::StatusOr<ModelEvaluation> EvaluateModel(const LocalModel& model, int threads) {
  const Job& job = model.job;
  if (!job.has_test()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job.name(), " has no test set to evaluate on"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const DataSource> test, OpenTestData(job, OpenerFor()));
  NetworkOptions options;
  options.threads = threads;
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                   CreateNetwork(BackendKind::kCpu, job.model(), model.layout, options));
  ReplicaGroup group({}, network.get());
  network->SetParameters(model.parameters);
  ASSIGN_OR_RETURN(const EvaluationResult result,
                   EvaluateAll(&group, *test, job.evaluation().batch_size()));
  const double examples = static_cast<double>(result.examples);
  return ModelEvaluation{static_cast<double>(result.correct) / examples, result.loss_sum / examples,
                         result.examples};
}

std::string ToJson(const ModelEvaluation& evaluation) {
  JsonWriter json;
  json.BeginObject();
  json.Member("schema_version", 1);
  json.Member("test_accuracy", evaluation.test_accuracy);
  json.Member("test_loss", evaluation.test_loss);
  json.Member("examples", evaluation.examples);
  json.EndObject();
  return json.text();
}

}  // namespace monsoon
