// Files whose whole content is data, without a header: those of a path or pattern, one after
// another; plain or gzip (.gz, .dz).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/access/data_roots.h"

namespace monsoon {

struct ContentFile {
  std::string path;
  uint64_t bytes = 0;  // uncompressed
  bool compressed = false;
};

// Inflates compressed ones to count their bytes. Errors are those of FilesOf, ReadFilePrefix and
// CountBytes, which name the file.
absl::StatusOr<std::vector<ContentFile>> OpenContentFiles(const std::string& pattern,
                                                          const DataRoots& roots);

uint64_t ContentBytes(std::span<const ContentFile> files);

// "PATH: byte N", of byte `at` of them all; of the last file where `at` is beyond.
std::string ContentPlace(std::span<const ContentFile> files, uint64_t at);

// Calls `look` with the bytes [begin, end) of them all, piece by piece. Its error ends it. Reads
// each file that it begins to its end (StreamFile).
absl::Status StreamContent(std::span<const ContentFile> files, const DataRoots& roots,
                           uint64_t begin, uint64_t end,
                           absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look);

}  // namespace monsoon
