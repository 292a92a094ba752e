#include "common/data/file_prefix.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/data/gzip_file.h"

namespace monsoon {
namespace {

absl::Status ReadPieces(const std::string& path, const DataRoots& roots, size_t bytes,
                        absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  ASSIGN_OR_RETURN(GzipFile file, GzipFile::Open(path, roots));
  std::vector<char> buffer(bytes);
  while (true) {
    ASSIGN_OR_RETURN(const size_t got, file.Read(buffer.data(), buffer.size()));
    if (got > 0) {
      RETURN_IF_ERROR(visit({buffer.data(), got}));
    }
    if (got < buffer.size()) {
      return absl::OkStatus();
    }
  }
}

}  // namespace

absl::StatusOr<FilePrefix> ReadFilePrefix(const std::string& path, const DataRoots& roots,
                                          size_t max_bytes) {
  ASSIGN_OR_RETURN(GzipFile file, GzipFile::Open(path, roots));
  FilePrefix prefix;
  prefix.bytes.resize(max_bytes);
  ASSIGN_OR_RETURN(const size_t got, file.Read(prefix.bytes.data(), max_bytes));
  prefix.bytes.resize(got);
  prefix.compressed = file.compressed();
  prefix.size = prefix.compressed ? file.trailer() : file.file_bytes();
  return prefix;
}

absl::StatusOr<uint64_t> CountBytes(const std::string& path, const DataRoots& roots) {
  uint64_t total = 0;
  RETURN_IF_ERROR(ReadPieces(path, roots, 1 << 16, [&](absl::string_view piece) {
    total += piece.size();
    return absl::OkStatus();
  }));
  return total;
}

absl::Status ReadTextPieces(const std::string& path, const DataRoots& roots,
                            absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  bool first = true;
  return ReadPieces(path, roots, kTextPiece, [&](absl::string_view piece) {
    if (first) {
      absl::ConsumePrefix(&piece, "\xef\xbb\xbf");
      first = false;
    }
    return visit(piece);
  });
}

absl::Status CheckFileSize(const std::string& path, const DataRoots& roots,
                           const FilePrefix& prefix, uint64_t expected) {
  uint64_t size = prefix.size;
  if (prefix.compressed) {
    if (size == (expected & 0xffffffffu)) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(size, CountBytes(path, roots));
  }
  if (size != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the header promises ", expected, " bytes, the file has ", size));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
