// Reads the arrays of NumPy files (npy and npz sources) as a data set.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"
#include "worker/data/read_options.h"

namespace monsoon {

// As array_source.h judges them; where nobody knows labels, those are 0. InvalidArgument or
// DataLoss name the file, the array and what is wrong: values that are not finite too.
absl::StatusOr<std::unique_ptr<DataSource>> ReadArrays(const Dataset& dataset,
                                                       const ReadOptions& options);

}  // namespace monsoon
