// LibsvmSource of proto/dataset.proto as a table. Sparse lines become dense rows.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/table.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// Reads `files` one after another; `source.file()` is not looked at. source.features() is not 0;
// class names and a training set count for nothing. InvalidArgument, NotFound or DataLoss that
// names file and line. Blocks on the disk.
absl::StatusOr<SampleTable> ReadLibsvmTable(const LibsvmSource& source,
                                            const std::vector<std::string>& files,
                                            const TableOptions& options);

}  // namespace monsoon
