#include "common/data/gzip_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr unsigned kBuffer = 1 << 17;
constexpr size_t kMostAtOnce = 1 << 30;  // gzread counts in int

uint32_t TrailerOf(int file, uint64_t bytes) {
  uint8_t trailer[4];
  if (bytes < 4 || pread(file, trailer, 4, static_cast<off_t>(bytes - 4)) != 4) {
    return 0;
  }
  return uint32_t{trailer[0]} | uint32_t{trailer[1]} << 8 | uint32_t{trailer[2]} << 16 |
         uint32_t{trailer[3]} << 24;
}

}  // namespace

absl::Status CheckExpansion(const std::string& what, uint64_t stored, uint64_t bytes) {
  if (bytes <= kFreeExpansion || bytes / kMostExpansion <= stored) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": ", stored, " compressed bytes hold ", bytes, " or more, over ", kMostExpansion,
      " times as many, which is hardly data; store it uncompressed if it is meant so"));
}

absl::StatusOr<GzipFile> GzipFile::Open(const std::string& path, const DataRoots& roots) {
  ASSIGN_OR_RETURN(UniqueFd opened, roots.OpenFile(path));
  struct stat info;
  if (fstat(opened.get(), &info) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  const auto bytes = static_cast<uint64_t>(info.st_size);
  const uint32_t trailer = TrailerOf(opened.get(), bytes);
  const gzFile file = gzdopen(opened.get(), "rb");
  if (file == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot read ", path, ": no memory"));
  }
  opened.Release();
  gzbuffer(file, kBuffer);
  return GzipFile(path, bytes, trailer, file);
}

absl::StatusOr<size_t> GzipFile::Read(void* out, size_t size) {
  size_t done = 0;
  while (done < size) {
    const int got = gzread(file_.get(), static_cast<char*>(out) + done,
                           static_cast<unsigned>(std::min(size - done, kMostAtOnce)));
    if (got < 0) {
      return Error();
    }
    if (got == 0) {
      int code = Z_OK;
      gzerror(file_.get(), &code);
      if (code != Z_OK) {
        return Error();
      }
      break;
    }
    done += static_cast<size_t>(got);
    at_ += static_cast<uint64_t>(got);
    if (compressed()) {
      RETURN_IF_ERROR(CheckExpansion(path_, file_bytes_, at_));
    }
  }
  return done;
}

absl::Status GzipFile::Error() const {
  int code = Z_OK;
  gzerror(file_.get(), &code);
  const char* const reason =
      code == Z_ERRNO ? std::strerror(errno) : "the gzip data is cut short or damaged";
  return absl::DataLossError(absl::StrCat(path_, " cannot be read beyond byte ", at_,
                                          " of its uncompressed content: ", reason));
}

}  // namespace monsoon
