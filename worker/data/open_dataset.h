// Opens the data set of a job file.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"

namespace monsoon {

// Samples come in the order of the model's `input_shape`. Paths must be absolute
// or relative to the working directory. Reads the files whole; errors name the
// file. InvalidArgument where samples and model do not fit (CheckSampleShape).
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataset(const Dataset& dataset,
                                                        const std::vector<uint32_t>& input_shape);

}  // namespace monsoon
