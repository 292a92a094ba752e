#include "common/data/file_prefix.h"

#include <errno.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

struct GzCloser {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, GzCloser>;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status SystemError(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot read ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

absl::StatusOr<uint64_t> RegularFileSize(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return SystemError(path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot read ", path, ": ", S_ISDIR(info.st_mode) ? "it is a directory" : "not a file"));
  }
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<GzHandle> Open(const std::string& path) {
  errno = 0;
  GzHandle file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return SystemError(path, errno != 0 ? errno : ENOMEM);
  }
  return file;
}

absl::Status DamagedError(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, ": the gzip data is cut short or damaged"));
}

absl::Status ReadPieces(const std::string& path, size_t bytes,
                        absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  RETURN_IF_ERROR(RegularFileSize(path).status());
  ASSIGN_OR_RETURN(GzHandle file, Open(path));
  std::vector<char> buffer(bytes);
  while (true) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got < 0) {
      int error = Z_OK;
      gzerror(file.get(), &error);
      return error == Z_ERRNO ? SystemError(path, errno) : DamagedError(path);
    }
    if (got == 0) {
      break;
    }
    RETURN_IF_ERROR(visit({buffer.data(), static_cast<size_t>(got)}));
  }
  int error = Z_OK;
  gzerror(file.get(), &error);
  return error == Z_OK ? absl::OkStatus() : DamagedError(path);
}

// The last four bytes of a gzip file: its length modulo 2^32, little-endian.
absl::StatusOr<uint64_t> GzipTrailerSize(const std::string& path) {
  std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  uint8_t trailer[4];
  if (file == nullptr || std::fseek(file.get(), -4, SEEK_END) != 0 ||
      std::fread(trailer, 1, 4, file.get()) != 4) {
    return SystemError(path, errno);
  }
  return static_cast<uint64_t>(trailer[0]) | static_cast<uint64_t>(trailer[1]) << 8 |
         static_cast<uint64_t>(trailer[2]) << 16 | static_cast<uint64_t>(trailer[3]) << 24;
}

}  // namespace

absl::StatusOr<FilePrefix> ReadFilePrefix(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, RegularFileSize(path));
  ASSIGN_OR_RETURN(GzHandle file, Open(path));
  FilePrefix prefix;
  prefix.bytes.resize(max_bytes);
  const int got = gzread(file.get(), prefix.bytes.data(), static_cast<unsigned>(max_bytes));
  if (got < 0) {
    return DamagedError(path);
  }
  prefix.bytes.resize(static_cast<size_t>(got));
  prefix.compressed = gzdirect(file.get()) == 0;
  prefix.size = file_bytes;
  if (prefix.compressed) {
    ASSIGN_OR_RETURN(prefix.size, GzipTrailerSize(path));
  }
  return prefix;
}

absl::StatusOr<uint64_t> CountBytes(const std::string& path) {
  uint64_t total = 0;
  RETURN_IF_ERROR(ReadPieces(path, 1 << 16, [&](absl::string_view piece) {
    total += piece.size();
    return absl::OkStatus();
  }));
  return total;
}

absl::Status ReadTextPieces(const std::string& path,
                            absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  bool first = true;
  return ReadPieces(path, kTextPiece, [&](absl::string_view piece) {
    if (first) {
      absl::ConsumePrefix(&piece, "\xef\xbb\xbf");
      first = false;
    }
    return visit(piece);
  });
}

absl::Status CheckFileSize(const std::string& path, const FilePrefix& prefix, uint64_t expected) {
  uint64_t size = prefix.size;
  if (prefix.compressed) {
    if (size == (expected & 0xffffffffu)) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(size, CountBytes(path));
  }
  if (size != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the header promises ", expected, " bytes, the file has ", size));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
