#include "common/data/stream_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr size_t kPiece = 1 << 16;

struct GzCloser {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, GzCloser>;

absl::Status OpenError(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(message);
  }
  return error == EACCES ? absl::PermissionDeniedError(message) : absl::UnavailableError(message);
}

absl::Status ReadError(const std::string& path, gzFile file, uint64_t at) {
  int code = Z_OK;
  const char* const text = gzerror(file, &code);
  const std::string reason = code == Z_ERRNO       ? std::strerror(errno)
                             : code == Z_BUF_ERROR ? "the compressed data is cut off"
                             : code == Z_OK        ? "the file ends there"
                                                   : text;
  return absl::DataLossError(absl::StrCat(path, " cannot be read beyond byte ", at,
                                          " of its uncompressed content: ", reason));
}

// The next `size` bytes; fewer only at the end of the content.
absl::StatusOr<size_t> Read(const std::string& path, gzFile file, uint64_t at, uint8_t* out,
                            size_t size) {
  size_t done = 0;
  while (done < size) {
    const int got = gzread(file, out + done, static_cast<unsigned>(size - done));
    if (got < 0) {
      return ReadError(path, file, at + done);
    }
    if (got == 0) {
      break;
    }
    done += static_cast<size_t>(got);
  }
  return done;
}

}  // namespace

absl::Status StreamFile(const std::string& path, uint64_t offset, uint64_t bytes,
                        absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look) {
  errno = 0;
  const GzHandle file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return OpenError(path, errno == 0 ? ENOMEM : errno);
  }
  gzbuffer(file.get(), 1 << 17);
  std::vector<uint8_t> buffer(kPiece);
  uint64_t at = 0;
  const uint64_t end = offset + bytes;
  while (at < end) {
    // The bytes before `offset` are read like the others: gzseek of a compressed file reads too.
    const uint64_t stop = at < offset ? offset : end;
    const auto want = static_cast<size_t>(std::min<uint64_t>(kPiece, stop - at));
    ASSIGN_OR_RETURN(const size_t got, Read(path, file.get(), at, buffer.data(), want));
    if (at >= offset && got > 0) {
      RETURN_IF_ERROR(look(std::span<const uint8_t>(buffer).first(got)));
    }
    at += got;
    if (got < want) {
      return ReadError(path, file.get(), at);
    }
  }
  // Reading past the end makes zlib check the trailer's CRC and length.
  ASSIGN_OR_RETURN(const size_t beyond, Read(path, file.get(), at, buffer.data(), 1));
  if (beyond != 0) {
    return absl::DataLossError(
        absl::StrCat(path, " goes on after the ", bytes, " bytes that it should have"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
