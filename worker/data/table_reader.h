// Reads a CSV or LibSVM data set into memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"
#include "worker/data/read_options.h"

namespace monsoon {

// Where nobody knows labels (DataContext.unlabelled) they are 0. Errors as of ReadTable
// (common/data/table_source.h); InvalidArgument where rows and model do not fit.
absl::StatusOr<std::unique_ptr<DataSource>> ReadTableSource(const Dataset& dataset,
                                                            const ReadOptions& options);

}  // namespace monsoon
