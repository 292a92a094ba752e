// A model that --evaluate and --predict compute with, and the job that says how.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"

namespace monsoon {

struct LocalModel {
  std::string name;  // for messages: the file, or "lenet-1 generation 7 in FOLDER"
  Job job;
  ParameterLayout layout;         // of job.model
  std::vector<float> parameters;  // of the layout
  // For people: which generation was taken, and what was passed over.
  std::vector<std::string> notes;
};

// `model` is a file (model_file.h) or a checkpoint (PlaceOf: a job's folder, or a
// part). Without a job file ("") a checkpoint's own job is taken. `check_data_files` as
// of LoadJob. InvalidArgument for a model that does not fit the job's, naming the
// tensor; DataLoss for a checkpoint that is damaged. Blocks on the disk.
absl::StatusOr<LocalModel> LoadLocalModel(const std::string& model, const std::string& job_file,
                                          bool check_data_files);

}  // namespace monsoon
