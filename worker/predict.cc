#include "worker/predict.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/access/data_access.h"
#include "common/data/dataset_info.h"
#include "common/json/json_writer.h"
#include "worker/backend/backend.h"
#include "worker/class_names.h"
#include "worker/data/job_data.h"
#include "worker/group/evaluator.h"
#include "worker/nn/network_plan.h"
#include "worker/prediction_file.h"

namespace monsoon {
namespace {

constexpr char kTest[] = "test";
constexpr char kTrain[] = "train";

// `data` as a data set of the job.
absl::StatusOr<Dataset> DatasetOf(const Job& job, const std::string& data) {
  if (data == kTrain) {
    return job.train();
  }
  if (data == kTest) {
    if (!job.has_test()) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", job.name(),
                       " has no test set (the field test): name --data=train, "
                       "or a file"));
    }
    return job.test();
  }
  Dataset dataset = job.has_test() ? job.test() : job.train();
  dataset.clear_limit();
  if (absl::EndsWith(data, ".npy")) {
    dataset.mutable_npy()->Clear();
    dataset.mutable_npy()->set_images(data);
  } else if (absl::EndsWith(data, ".npz")) {
    NpzSource* const source = dataset.mutable_npz();
    source->set_file(data);
    source->clear_labels();
    source->clear_weights();
  } else if (dataset.has_idx() || dataset.has_npy() || dataset.has_npz() ||
             dataset.has_synthetic()) {
    dataset.mutable_idx()->Clear();
    dataset.mutable_idx()->set_images(data);
  } else {
    // Of a source that one path names: another file of the same kind.
    VisitPaths(&dataset, [&](std::string* path) { *path = data; });
  }
  return dataset;
}

// Each of options.data, as the network wants it.
absl::StatusOr<std::vector<std::shared_ptr<const DataSource>>> OpenAll(
    const PredictOptions& options, const Job& job) {
  std::vector<std::string> names = options.data;
  if (names.empty()) {
    names = {kTest};
  }
  const DatasetOpener open = OpenerFor();
  std::vector<std::shared_ptr<const DataSource>> sources;
  Job with = job;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(*with.mutable_test(), DatasetOf(job, name));
    absl::StatusOr<std::shared_ptr<const DataSource>> source =
        OpenTestData(with, open, DataAccess::Own(), /*unlabelled=*/name != kTest && name != kTrain);
    if (!source.ok()) {
      return Annotate(source.status(), absl::StrCat("--data=", name));
    }
    sources.push_back(*std::move(source));
  }
  return sources;
}

// By number where nobody tells the names: to predict, a model needs no training data.
void NameClasses(const Job& job, PredictionCounts* counts) {
  if (counts->kind == PredictionKind::kValues) {
    return;
  }
  absl::StatusOr<std::vector<std::string>> names = ClassNamesOf(job);
  if (names.ok()) {
    counts->class_names = *std::move(names);
  } else {
    counts->notes.push_back(absl::StrCat(
        "classes are told by number, since what names them cannot be read (class_name in the job "
        "file would): ",
        names.status().message()));
  }
}

}  // namespace

bool IsOfFilesOnly(const std::vector<std::string>& data) {
  return !data.empty() && std::none_of(data.begin(), data.end(), [](const std::string& name) {
    return name == kTest || name == kTrain;
  });
}

absl::StatusOr<PredictionCounts> PredictSamples(const PredictOptions& options,
                                                const LocalModel& model) {
  const Job& job = model.job;
  ASSIGN_OR_RETURN(const auto sources, OpenAll(options, job));
  NetworkOptions network_options;
  network_options.threads = options.threads;
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                   CreateNetwork(BackendKind::kCpu, job.model(), model.layout, network_options));
  network->SetParameters(model.parameters);
  ASSIGN_OR_RETURN(const NetworkPlan plan, NetworkPlan::Create(job.model(), model.layout));
  PredictionCounts counts{
      .classes = plan.loss.outputs, .steps = plan.loss.steps, .kind = PredictionKindOf(plan.loss)};
  for (const auto& source : sources) {
    counts.samples += source->examples();
  }
  NameClasses(job, &counts);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PredictionFile> file,
      PredictionFile::Create(options.out, counts.samples, plan.loss, counts.class_names));
  for (size_t i = 0; i < sources.size(); ++i) {
    const absl::Status predicted =
        PredictAll(network.get(), plan.loss, *sources[i], job.evaluation().batch_size(),
                   [&](const PredictionSpans& predictions) { return file->Add(predictions); });
    if (absl::IsInvalidArgument(predicted) || absl::IsDataLoss(predicted)) {
      return Annotate(
          predicted,
          absl::StrCat(model.name, ", --data=", options.data.empty() ? kTest : options.data[i]));
    }
    RETURN_IF_ERROR(predicted);
  }
  RETURN_IF_ERROR(file->Finish());
  return counts;
}

std::string ToJson(const PredictOptions& options, const PredictionCounts& counts) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", 1).Member("out", options.out);
  json.Member("samples", counts.samples).Member("classes", counts.classes);
  json.Member("holds", Name(counts.kind));
  if (counts.steps > 1) {
    json.Member("steps", counts.steps);
  }
  if (!counts.class_names.empty()) {
    json.Key("class_names").BeginArray();
    for (const std::string& name : counts.class_names) {
      json.Value(name);
    }
    json.EndArray();
  }
  return json.EndObject().text();
}

}  // namespace monsoon
