#include "worker/evaluate.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/access/data_access.h"
#include "common/json/json_writer.h"
#include "worker/backend/backend.h"
#include "worker/class_names.h"
#include "worker/data/job_data.h"
#include "worker/group/evaluator.h"
#include "worker/group/replica_group.h"
#include "worker/nn/network_plan.h"

namespace monsoon {

absl::StatusOr<ModelEvaluation> EvaluateModel(const LocalModel& model, int threads) {
  const Job& job = model.job;
  if (!job.has_test()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job.name(), " has no test set to evaluate on"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const DataSource> test,
                   OpenTestData(job, OpenerFor(), DataAccess::Own()));
  NetworkOptions options;
  options.threads = threads;
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                   CreateNetwork(BackendKind::kCpu, job.model(), model.layout, options));
  ReplicaGroup group({}, network.get());
  network->SetParameters(model.parameters);
  TestFigures figures;
  ASSIGN_OR_RETURN(const EvaluationResult result,
                   EvaluateAll(&group, *test, job.evaluation().batch_size(), nullptr, &figures));
  const double examples = static_cast<double>(result.examples);
  ModelEvaluation evaluation{.test_loss = result.loss_sum / examples,
                             .examples = result.examples,
                             .metrics = result.metrics};
  if (result.unjudged == 0) {
    evaluation.test_accuracy = result.correct / examples;
  }
  std::erase_if(evaluation.metrics, [](const auto& metric) {
    return metric.first == "accuracy" || metric.first == "loss";
  });
  ASSIGN_OR_RETURN(const NetworkPlan plan, NetworkPlan::Create(job.model(), model.layout));
  if (!figures.predictions().empty() && plan.loss.classes <= kMostConfusedClasses) {
    evaluation.confusion.emplace(figures.predictions(), plan.loss.classes);
    // Where nothing tells them, classes are told by number.
    evaluation.class_names = ClassNamesOf(job).value_or(std::vector<std::string>());
  }
  return evaluation;
}

namespace {

void WriteConfusion(const ModelEvaluation& evaluation, JsonWriter* json) {
  const ConfusionMatrix& matrix = *evaluation.confusion;
  json->Key("classes").BeginArray();
  for (uint64_t c = 0; c < matrix.classes(); ++c) {
    const bool named = c < evaluation.class_names.size();
    json->BeginObject();
    json->Member("name", named ? std::make_optional(evaluation.class_names[c]) : std::nullopt);
    json->Member("examples", matrix.samples(c));
    json->Member("precision", matrix.precision(c)).Member("recall", matrix.recall(c));
    json->EndObject();
  }
  json->EndArray().Key("confusion").BeginArray();
  for (uint64_t label = 0; label < matrix.classes(); ++label) {
    json->BeginArray();
    for (uint64_t predicted = 0; predicted < matrix.classes(); ++predicted) {
      json->Value(matrix.count(label, predicted));
    }
    json->EndArray();
  }
  json->EndArray();
}

}  // namespace

std::string ToJson(const ModelEvaluation& evaluation) {
  JsonWriter json;
  json.BeginObject();
  json.Member("schema_version", 1);
  json.Member("test_accuracy", evaluation.test_accuracy);
  json.Member("test_loss", evaluation.test_loss);
  json.Member("examples", evaluation.examples);
  json.Key("metrics").BeginObject();
  for (const auto& [name, value] : evaluation.metrics) {
    json.Member(name, value);
  }
  json.EndObject();
  if (evaluation.confusion) {
    WriteConfusion(evaluation, &json);
  } else {
    json.Key("classes").Null().Key("confusion").Null();
  }
  json.EndObject();
  return json.text();
}

}  // namespace monsoon
