// What the files of this machine say to a job that was written elsewhere.
#pragma once

#include <optional>
#include <vector>

#include "common/config/diagnostics.h"
#include "common/data/access/data_access.h"
#include "common/data/dataset_info.h"
#include "proto/job.pb.h"

namespace monsoon {

struct DataFindings {
  // Without a place in a file; the errors also say what is wrong with the job itself.
  std::vector<Diagnostic> errors;
  // Only where there is no error, and only what could not be told without the files.
  std::vector<Diagnostic> warnings;
  // Unset: the job has no such set, or it cannot be read.
  std::optional<DatasetInfo> train;
  std::optional<DatasetInfo> test;
};

// Reads headers and labels, and holds them against the model and the batch. `job` is as LoadJob
// makes it. Blocks on the disk.
DataFindings FindInData(const Job& job, const DataAccess& access);

}  // namespace monsoon
