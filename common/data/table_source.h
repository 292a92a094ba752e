// Tables (CsvSource and LibsvmSource of proto/dataset.proto) as sources.
#pragma once

#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "common/data/table.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// Reads the table of `dataset`, whose source is one of the two. Of a test set beside a CSV
// training set that is read too: its words and columns count. Errors as of ReadCsvTable and
// ReadLibsvmTable. Blocks on the disk.
absl::StatusOr<SampleTable> ReadTable(const Dataset& dataset, const DataContext& context,
                                      bool keep_values);

}  // namespace monsoon
