// Reads the samples of a data set from end to end, as `validate --data` does:
// what the headers do not tell.
#pragma once

#include "absl/status/status.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// InvalidArgument, naming the file, the first sample and place, and how many
// there are, where values are NaN or infinite among the samples that `limit`
// keeps; DataLoss where the file is cut short or damaged (gzip's CRC). Takes
// some KiB of memory and blocks on the disk. `info` is what DescribeDataset
// said; synthetic data are always right.
absl::Status ScanValues(const Dataset& dataset, const DataContext& context,
                        const DatasetInfo& info);

}  // namespace monsoon
