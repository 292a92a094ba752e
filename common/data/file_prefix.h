// The first bytes of a data file, plain or gzip, and how long it is: all that
// a header parser needs. Never reads a whole plain file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/data/access/data_roots.h"

namespace monsoon {

struct FilePrefix {
  std::string bytes;  // uncompressed, at most the number asked for
  // Uncompressed length in bytes. Of a gzip file: its trailer's claim, modulo
  // 2^32, of the last member alone (see CountBytes).
  uint64_t size = 0;
  bool compressed = false;
};

// Blocks on the disk only. Errors as of GzipFile, with the path in the message.
absl::StatusOr<FilePrefix> ReadFilePrefix(const std::string& path, const DataRoots& roots,
                                          size_t max_bytes);

// The exact uncompressed length, by inflating the whole file. DataLoss when
// the compressed stream is cut or damaged.
absl::StatusOr<uint64_t> CountBytes(const std::string& path, const DataRoots& roots);

inline constexpr size_t kTextPiece = 1 << 18;

// Calls `visit` with the uncompressed content of a text file, piece by piece, each but the last of
// kTextPiece bytes, without UTF-8's byte-order mark; until the end, or an error of `visit`, which
// is returned. Errors as of ReadFilePrefix; DataLoss as of CountBytes.
absl::Status ReadTextPieces(const std::string& path, const DataRoots& roots,
                            absl::FunctionRef<absl::Status(absl::string_view)> visit);

// OK when `path` holds exactly `expected` uncompressed bytes. A gzip file is
// inflated only if its trailer disagrees (it may have several members).
absl::Status CheckFileSize(const std::string& path, const DataRoots& roots,
                           const FilePrefix& prefix, uint64_t expected);

}  // namespace monsoon
