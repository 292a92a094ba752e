#include "worker/data/data_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using File = std::unique_ptr<gzFile_s, Close>;

// gzread counts in unsigned int.
constexpr uint64_t kPiece = 1 << 20;

absl::Status OpenError(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  if (error == ENOENT) {
    return absl::NotFoundError(message);
  }
  return error == EACCES ? absl::PermissionDeniedError(message) : absl::UnavailableError(message);
}

absl::Status ReadError(const std::string& path, gzFile file, uint64_t at) {
  int code = Z_OK;
  const char* text = gzerror(file, &code);
  const std::string reason = code == Z_ERRNO       ? std::strerror(errno)
                             : code == Z_BUF_ERROR ? "the compressed data is cut off"
                             : code == Z_OK        ? "the file ends there"
                                                   : text;
  return absl::DataLossError(absl::StrCat(path, " cannot be read beyond byte ", at,
                                          " of its uncompressed content: ", reason));
}

// Reads up to `size` bytes; fewer only at the end of the content.
absl::StatusOr<uint64_t> Read(const std::string& path, gzFile file, uint64_t at, uint8_t* out,
                              uint64_t size) {
  uint64_t done = 0;
  while (done < size) {
    const auto piece = static_cast<unsigned>(std::min(kPiece, size - done));
    const int got = gzread(file, out + done, piece);
    if (got < 0) {
      return ReadError(path, file, at + done);
    }
    if (got == 0) {
      break;
    }
    done += static_cast<uint64_t>(got);
  }
  return done;
}

}  // namespace

absl::StatusOr<std::vector<uint8_t>> ReadDataFile(const std::string& path, uint64_t offset,
                                                  uint64_t size) {
  errno = 0;
  const File file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return OpenError(path, errno == 0 ? ENOMEM : errno);
  }
  gzbuffer(file.get(), 1 << 17);
  std::vector<uint8_t> header(offset);
  ASSIGN_OR_RETURN(const uint64_t skipped, Read(path, file.get(), 0, header.data(), offset));
  std::vector<uint8_t> bytes(size);
  uint64_t got = 0;
  if (skipped == offset) {
    ASSIGN_OR_RETURN(got, Read(path, file.get(), offset, bytes.data(), size));
  }
  if (got < size || skipped < offset) {
    return ReadError(path, file.get(), skipped + got);
  }
  // Reading past the end makes zlib check the trailer's CRC and length.
  uint8_t more = 0;
  ASSIGN_OR_RETURN(const uint64_t beyond, Read(path, file.get(), offset + size, &more, 1));
  if (beyond != 0) {
    return absl::DataLossError(absl::StrCat(path, " goes on after the ", size,
                                            " bytes of samples that its header promises"));
  }
  return bytes;
}

}  // namespace monsoon
