// Folders of images (ImageFolderSource of proto/dataset.proto) as a source.
#pragma once

#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "common/data/image/image_folder.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// The files of `dataset`. Their classes are those of its class_name, or else of the training set's
// folders. Blocks on the disk; opens no file.
absl::StatusOr<ImageFolder> ListImages(const Dataset& dataset, const DataContext& context);

}  // namespace monsoon
