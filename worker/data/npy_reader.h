// Reads a data set of two NumPy .npy files into memory; of one where nobody knows
// labels.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"
#include "worker/data/read_options.h"

namespace monsoon {

// Images are float32 (finite) or uint8 [n, ...], labels any integer type [n], not
// negative; without a file of labels they are 0. InvalidArgument or DataLoss name the
// file and what is wrong.
absl::StatusOr<std::unique_ptr<DataSource>> ReadNpy(const NpySource& source,
                                                    const ReadOptions& options);

}  // namespace monsoon
