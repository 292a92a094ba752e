// Opens the data set of a job file.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"

namespace monsoon {

// Samples come in the order of the model's input. Paths must be absolute
// or relative to the working directory. Reads the files whole, whether or not samples
// are kept in memory (Dataset.residence); errors name the
// file. InvalidArgument where samples and model do not fit (CheckSampleShape).
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataset(const Dataset& dataset,
                                                        const DataContext& context);

}  // namespace monsoon
