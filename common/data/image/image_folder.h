// ImageFolderSource of proto/dataset.proto: which files are samples of which class.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/access/data_roots.h"
#include "proto/dataset.pb.h"

namespace monsoon {

struct ImageFolder {
  std::vector<std::string> files;  // in the order of the classes, then of their names
  std::vector<uint32_t> labels;    // of each file
  std::vector<std::string> class_names;
};

// The folders, one a class, in the order of their names' bytes. Errors as below.
absl::StatusOr<std::vector<std::string>> ClassFolders(const std::string& path,
                                                      const DataRoots& roots);

// Lists the folder. `class_names`, if there are any, are the classes in order (of Dataset, or of
// the training set): the folders are some of them. Else the folders are numbered in the order of
// their names' bytes. Names that begin with "." are left out. InvalidArgument or NotFound with the
// path: folders without images, files that are called neither .png nor .jpg nor .jpeg.
// Opens no file.
absl::StatusOr<ImageFolder> ListImages(const ImageFolderSource& source,
                                       std::span<const std::string> class_names, uint64_t limit,
                                       const DataRoots& roots);

// Images whose classes nobody knows, labels 0: those in the folder and in its folders, in the order
// of their names. Errors as above.
absl::StatusOr<ImageFolder> ListUnlabelledImages(const std::string& path, uint64_t limit,
                                                 const DataRoots& roots);

// The content of a file. Blocks on the disk.
absl::StatusOr<std::vector<uint8_t>> ReadWholeFile(const std::string& path, const DataRoots& roots);

// Decodes `path` to `out`, [channels, height, width] of `shape` (FitImage).
absl::Status ReadImage(const std::string& path, const DataRoots& roots,
                       std::span<const uint32_t> shape, std::span<uint8_t> out);

// `input_shape` as [channels, height, width]; InvalidArgument unless it is that with 1 or 3
// channels, or [height, width].
absl::StatusOr<std::vector<uint32_t>> ImageShape(std::span<const uint32_t> input_shape);

}  // namespace monsoon
