// Reads arrays of samples as a data set: those of NumPy files (npy and npz sources).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/data/array_source.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"
#include "worker/data/read_options.h"

namespace monsoon {

// As array_source.h judges them; where nobody knows labels, those are 0. They are read from end to
// end, whether or not they are kept. InvalidArgument or DataLoss name the file, the array and what
// is wrong: values that are not finite too.
absl::StatusOr<std::unique_ptr<DataSource>> ReadArrays(const Dataset& dataset,
                                                       const ReadOptions& options);

// The same of arrays from elsewhere.
absl::StatusOr<std::unique_ptr<DataSource>> ReadSampleArrays(const SampleArrays& arrays,
                                                             const ReadOptions& options);

}  // namespace monsoon
