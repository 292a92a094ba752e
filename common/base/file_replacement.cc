#include "common/base/file_replacement.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

absl::Status FileError(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot ", what));
}

// Makes a rename in the folder of `path` durable.
absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return FileError(folder, "open");
  }
  // Some file systems cannot flush a folder and say EINVAL.
  const bool synced = fsync(fd) == 0 || errno == EINVAL;
  const int error = errno;
  close(fd);
  errno = error;
  return synced ? absl::OkStatus() : FileError(folder, "flush");
}

}  // namespace

absl::StatusOr<FileReplacement> FileReplacement::Create(const std::string& path) {
  std::string temporary = absl::StrCat(path, ".tmp.", getpid());
  FILE* file = fopen(temporary.c_str(), "wbe");
  if (file == nullptr) {
    return FileError(temporary, "create");
  }
  return FileReplacement(path, std::move(temporary), file);
}

FileReplacement::~FileReplacement() {
  if (file_ != nullptr) {
    unlink(temporary_.c_str());
  }
}

absl::Status FileReplacement::Write(std::span<const std::byte> bytes) {
  if (fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
    return FileError(temporary_, absl::StrCat("write ", bytes.size(), " bytes"));
  }
  bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::Status FileReplacement::Write(absl::string_view text) {
  return Write(std::as_bytes(std::span(text.data(), text.size())));
}

absl::Status FileReplacement::WriteAt(uint64_t offset, absl::string_view text) {
  CHECK_LE(offset + text.size(), bytes_);
  if (fflush(file_.get()) != 0) {
    return FileError(temporary_, "flush");
  }
  while (!text.empty()) {
    const ssize_t written =
        pwrite(fileno(file_.get()), text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return FileError(temporary_, absl::StrCat("write ", text.size(), " bytes"));
    }
    offset += static_cast<uint64_t>(written);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status FileReplacement::Finish() {
  if (fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) {
    return FileError(temporary_, "flush");
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return FileError(path_, absl::StrCat("rename ", temporary_));
  }
  file_.reset();
  return SyncFolderOf(path_);
}

}  // namespace monsoon
