// Reads a data set of two NumPy .npy files into memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

// The first `limit` samples (0: all). Images are float32 (finite) or uint8
// [n, ...], labels any integer type [n], not negative. InvalidArgument or
// DataLoss name the file and what is wrong.
absl::StatusOr<std::unique_ptr<DataSource>> ReadNpy(const NpySource& source, uint64_t limit,
                                                    const Normalisation& normalisation);

}  // namespace monsoon
