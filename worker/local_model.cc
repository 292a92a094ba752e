#include "worker/local_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_place.h"
#include "common/checkpoint/stored_job.h"
#include "common/config/job.h"
#include "common/model/layout_difference.h"
#include "common/model_file/model_file.h"
#include "common/storage/storage.h"

namespace monsoon {
namespace {

// Where `model` is a checkpoint; NotFound where it is a model file, or nothing.
absl::StatusOr<CheckpointPlace> CheckpointOf(const std::string& model) {
  absl::StatusOr<CheckpointPlace> place = PlaceOf(PosixStorage(), model);
  return place.ok() || PosixStorage()->List(model).ok() ? place
                                                        : absl::NotFoundError("a file, or nothing");
}

absl::StatusOr<LocalModel> FromFile(const std::string& path, const std::string& job_file,
                                    const LoadOptions& options) {
  if (job_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " does not say what its job was: --job=FILE is missing"));
  }
  LocalModel model{.name = path};
  ASSIGN_OR_RETURN(model.job, LoadJob(job_file, options));
  ASSIGN_OR_RETURN(model.layout, ParameterLayout::Create(model.job.model()));
  ASSIGN_OR_RETURN(model.parameters, ReadModelFile(model.layout, path));
  return model;
}

absl::StatusOr<LocalModel> FromCheckpoint(const CheckpointPlace& place, const std::string& job_file,
                                          const LoadOptions& options) {
  std::vector<std::string> skipped;
  ASSIGN_OR_RETURN(LoadedCheckpoint checkpoint, LoadFrom(PosixStorage(), place, &skipped));
  const ShardCheckpoint& content = checkpoint.content;
  LocalModel model{.name = absl::StrCat(content.create().job(), " generation ",
                                        content.generation(), " in ", place.folder)};
  model.notes.push_back(absl::StrCat("the model is ", model.name));
  for (const std::string& line : skipped) {
    model.notes.push_back(absl::StrCat("passed over: ", line));
  }
  ASSIGN_OR_RETURN(model.job,
                   job_file.empty() ? LoadStoredJob(content, options) : LoadJob(job_file, options));
  RETURN_IF_ERROR(KeepClassOrder(content, &model.job));
  ASSIGN_OR_RETURN(model.layout, ParameterLayout::Create(model.job.model()));
  const std::string difference =
      FirstTensorDifference(checkpoint.layout, "the checkpoint", model.layout, "the job");
  if (!difference.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(model.name, " does not fit the model: ", difference));
  }
  model.parameters = std::move(checkpoint.parameters);
  return model;
}

}  // namespace

absl::StatusOr<LocalModel> LoadLocalModel(const std::string& model, const std::string& job_file,
                                          bool check_data_files) {
  const LoadOptions options{.check_data_files = check_data_files};
  const absl::StatusOr<CheckpointPlace> place = CheckpointOf(model);
  if (absl::IsNotFound(place.status())) {
    return FromFile(model, job_file, options);
  }
  RETURN_IF_ERROR(place.status());
  return FromCheckpoint(*place, job_file, options);
}

}  // namespace monsoon
