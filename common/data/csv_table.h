// CsvSource of proto/dataset.proto as a table.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/table.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// Reads `files`, whose headers are the same, one after another; `source.file()` is not looked at.
// Without a label and targets there are none: samples that nobody knows the answer of.
//
// With options.train its class names, columns (where the source names none) and means count, and a
// word that is none of its classes is an error.
//
// InvalidArgument, NotFound or DataLoss that names file, line and column. Blocks on the disk.
absl::StatusOr<SampleTable> ReadCsvTable(const CsvSource& source,
                                         const std::vector<std::string>& files,
                                         const TableOptions& options);

}  // namespace monsoon
