#include "common/data/stream_file.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/gzip_file.h"

namespace monsoon {
namespace {

constexpr size_t kPiece = 1 << 16;

}  // namespace

absl::Status StreamFile(const std::string& path, const DataRoots& roots, uint64_t offset,
                        uint64_t bytes,
                        absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look) {
  ASSIGN_OR_RETURN(GzipFile file, GzipFile::Open(path, roots));
  std::vector<uint8_t> buffer(kPiece);
  uint64_t at = 0;
  const uint64_t end = offset + bytes;
  while (at < end) {
    // The bytes before `offset` are read like the others: gzseek of a compressed file reads too.
    const uint64_t stop = at < offset ? offset : end;
    const auto want = static_cast<size_t>(std::min<uint64_t>(kPiece, stop - at));
    ASSIGN_OR_RETURN(const size_t got, file.Read(buffer.data(), want));
    if (at >= offset && got > 0) {
      RETURN_IF_ERROR(look(std::span<const uint8_t>(buffer).first(got)));
    }
    at += got;
    if (got < want) {
      return absl::DataLossError(absl::StrCat(path, " cannot be read beyond byte ", at,
                                              " of its uncompressed content: the file ends there"));
    }
  }
  // Reading past the end makes zlib check the trailer's CRC and length.
  ASSIGN_OR_RETURN(const size_t beyond, file.Read(buffer.data(), 1));
  if (beyond != 0) {
    return absl::DataLossError(
        absl::StrCat(path, " goes on after the ", bytes, " bytes that it should have"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
