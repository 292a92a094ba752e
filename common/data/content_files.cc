#include "common/data/content_files.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/data/file_pattern.h"
#include "common/data/file_prefix.h"
#include "common/data/stream_file.h"

namespace monsoon {

absl::StatusOr<std::vector<ContentFile>> OpenContentFiles(const std::string& pattern,
                                                          const DataRoots& roots) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesOf(pattern, roots));
  std::vector<ContentFile> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const FilePrefix prefix, ReadFilePrefix(path, roots, 1));
    ContentFile file{.path = path, .bytes = prefix.size, .compressed = prefix.compressed};
    if (file.compressed) {
      ASSIGN_OR_RETURN(file.bytes, CountBytes(path, roots));
    }
    files.push_back(std::move(file));
  }
  return files;
}

uint64_t ContentBytes(std::span<const ContentFile> files) {
  uint64_t bytes = 0;
  for (const ContentFile& file : files) {
    bytes += file.bytes;
  }
  return bytes;
}

std::string ContentPlace(std::span<const ContentFile> files, uint64_t at) {
  while (files.size() > 1 && at >= files.front().bytes) {
    at -= files.front().bytes;
    files = files.subspan(1);
  }
  return absl::StrCat(files.front().path, ": byte ", at);
}

absl::Status StreamContent(std::span<const ContentFile> files, const DataRoots& roots,
                           uint64_t begin, uint64_t end,
                           absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look) {
  uint64_t at = 0;
  for (const ContentFile& file : files) {
    if (at + file.bytes <= begin || at >= end) {
      at += file.bytes;
      continue;
    }
    RETURN_IF_ERROR(
        StreamFile(file.path, roots, 0, file.bytes, [&](std::span<const uint8_t> bytes) {
          const uint64_t from = std::clamp(begin, at, at + bytes.size()) - at;
          const uint64_t to = std::clamp(end, at, at + bytes.size()) - at;
          at += bytes.size();
          return from < to ? look(bytes.subspan(from, to - from)) : absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
