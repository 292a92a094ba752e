// CIFAR-10's binary version: records of a label and an image.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/access/quoting.h"
#include "common/data/content_files.h"
#include "proto/dataset.pb.h"

namespace monsoon {

inline constexpr uint64_t kCifar10Values = 3 * 32 * 32;  // [channels, height, width]
inline constexpr uint64_t kCifar10RecordBytes = 1 + kCifar10Values;
inline constexpr uint64_t kCifar10Classes = 10;

// InvalidArgument, naming the file and its size, where one does not hold whole records, or there
// are none or 2^32.
absl::StatusOr<std::vector<ContentFile>> OpenCifar10(const Cifar10Source& source,
                                                     const DataRoots& roots);

// Looks at the labels of records that pass by.
class Cifar10Labels {
 public:
  // `files` must outlive this.
  Cifar10Labels(std::span<const ContentFile> files, Quoting quoting)
      : files_(files), quoting_(quoting) {}

  // The next bytes of the content. InvalidArgument, naming file and record, for a label that is not
  // below 10: the files are something else (CIFAR-100's records have two labels).
  absl::Status Look(std::span<const uint8_t> bytes);
  // Largest label + 1.
  uint64_t classes() const { return classes_; }

 private:
  const std::span<const ContentFile> files_;
  const Quoting quoting_;
  uint64_t at_ = 0;
  uint64_t classes_ = 0;
};

}  // namespace monsoon
