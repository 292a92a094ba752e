// Reads files whose whole content is records of bytes: CIFAR-10's and text.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"
#include "worker/data/read_options.h"

namespace monsoon {

// Reads the content once from end to end, whether or not it is kept. InvalidArgument or DataLoss
// name the file and what is wrong.
absl::StatusOr<std::unique_ptr<DataSource>> ReadCifar10(const Dataset& dataset,
                                                        const ReadOptions& options);
absl::StatusOr<std::unique_ptr<DataSource>> ReadText(const Dataset& dataset,
                                                     const ReadOptions& options);

}  // namespace monsoon
