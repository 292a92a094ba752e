// The first bytes of a data file, plain or gzip, and how long it is: all that
// a header parser needs. Never reads a whole plain file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace monsoon {

struct FilePrefix {
  std::string bytes;  // uncompressed, at most the number asked for
  // Uncompressed length in bytes. Of a gzip file: its trailer's claim, modulo
  // 2^32, of the last member alone (see CountBytes).
  uint64_t size = 0;
  bool compressed = false;
};

// Blocks on the disk only: what is not a regular file (a FIFO, a directory) is
// refused unopened. NotFound, PermissionDenied or InvalidArgument with the
// path in the message.
absl::StatusOr<FilePrefix> ReadFilePrefix(const std::string& path, size_t max_bytes);

// The exact uncompressed length, by inflating the whole file. DataLoss when
// the compressed stream is cut or damaged.
absl::StatusOr<uint64_t> CountBytes(const std::string& path);

// OK when `path` holds exactly `expected` uncompressed bytes. A gzip file is
// inflated only if its trailer disagrees (it may have several members).
absl::Status CheckFileSize(const std::string& path, const FilePrefix& prefix, uint64_t expected);

}  // namespace monsoon
