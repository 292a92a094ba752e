#include "common/data/cifar10_records.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {

absl::StatusOr<std::vector<ContentFile>> OpenCifar10(const Cifar10Source& source,
                                                     const DataRoots& roots) {
  ASSIGN_OR_RETURN(std::vector<ContentFile> files, OpenContentFiles(source.file(), roots));
  for (const ContentFile& file : files) {
    if (file.bytes == 0 || file.bytes % kCifar10RecordBytes != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path, " has ", file.bytes, " bytes, not whole CIFAR-10 records of ",
          kCifar10RecordBytes, " (the binary version: a label, then 3 x 32 x 32 bytes)"));
    }
  }
  if (ContentBytes(files) / kCifar10RecordBytes > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(source.file(), " has 2^32 samples or more"));
  }
  return files;
}

absl::Status Cifar10Labels::Look(std::span<const uint8_t> bytes) {
  const uint64_t first = (at_ + kCifar10RecordBytes - 1) / kCifar10RecordBytes;
  const uint64_t end = at_ + bytes.size();
  for (uint64_t record = first; record * kCifar10RecordBytes < end; ++record) {
    const uint64_t label = bytes[record * kCifar10RecordBytes - at_];
    if (label >= kCifar10Classes) {
      size_t file = 0;
      uint64_t before = 0;
      while (record * kCifar10RecordBytes >= before + files_[file].bytes) {
        before += files_[file++].bytes;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          files_[file].path, ": record ", record - before / kCifar10RecordBytes, " begins with ",
          ContentNumber(static_cast<double>(label), quoting_),
          ", which is no label of CIFAR-10 (0 .. 9); CIFAR-100's files are other ones"));
    }
    classes_ = std::max(classes_, label + 1);
  }
  at_ = end;
  return absl::OkStatus();
}

}  // namespace monsoon
