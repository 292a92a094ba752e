// Opens the data set of a job file.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"

namespace monsoon {

// Samples must have `values` floats, the model's input size. Paths must be
// absolute or relative to the working directory. Reads the files whole; errors
// name the file. InvalidArgument where samples and model do not fit.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataset(const Dataset& dataset, size_t values);

}  // namespace monsoon
