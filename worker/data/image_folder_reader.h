// Reads a folder of images into memory, as bytes of the model's size.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/data_source.h"
#include "worker/data/read_options.h"

namespace monsoon {

// Decodes every image, and logs how far it is every ten seconds. Where nobody knows labels they
// are 0. InvalidArgument or DataLoss with the path of the file that cannot be read.
absl::StatusOr<std::unique_ptr<DataSource>> ReadImageFolder(const Dataset& dataset,
                                                            const ReadOptions& options);

}  // namespace monsoon
