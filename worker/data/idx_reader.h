// Reads a data set of two IDX files; of one where nobody knows labels.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"
#include "worker/data/read_options.h"

namespace monsoon {

// Without a file of labels they are 0. InvalidArgument or DataLoss name the file:
// headers that do not fit each other or the model, cut or damaged content.
absl::StatusOr<std::unique_ptr<DataSource>> ReadIdx(const Dataset& dataset,
                                                    const ReadOptions& options);

}  // namespace monsoon
