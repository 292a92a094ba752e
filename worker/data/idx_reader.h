// Reads a data set of two IDX files into memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

// The first `limit` samples (0: all). InvalidArgument or DataLoss name the
// file: headers that do not fit each other, cut or damaged content.
absl::StatusOr<std::unique_ptr<DataSource>> ReadIdx(const IdxSource& source, uint64_t limit,
                                                    const Normalisation& normalisation);

}  // namespace monsoon
