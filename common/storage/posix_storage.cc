#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/process/unique_fd.h"
#include "common/storage/file_path.h"
#include "common/storage/storage.h"

namespace monsoon {
namespace {

// Less the umask.
struct Modes {
  mode_t file = 0;
  mode_t folder = 0;
};
constexpr Modes kPrivate = {.file = 0600, .folder = 0700};
constexpr Modes kOutput = {.file = 0666, .folder = 0777};
constexpr mode_t kOfOthers = 0077;

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOENT:
      return absl::StatusCode::kNotFound;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

absl::Status SystemError(int error, absl::string_view operation, absl::string_view path) {
  char buffer[128];
  return absl::Status(CodeOf(error), absl::StrCat(operation, " ", path, ": ",
                                                  strerror_r(error, buffer, sizeof(buffer))));
}

// Calls until no signal comes in between.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class PosixFile : public StorageFile {
 public:
  PosixFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = Retry([&] {
        return pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      });
      // A regular file takes at least a byte, or says why not.
      if (written <= 0) {
        return SystemError(written < 0 ? errno : EIO, "write", path_);
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset += static_cast<uint64_t>(written);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (sync_error_.ok() && Retry([&] { return fdatasync(fd_.get()); }) != 0) {
      sync_error_ = SystemError(errno, "sync", path_);
    }
    return sync_error_;
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
  absl::Status sync_error_;
};

class PosixReader : public StorageReader {
 public:
  PosixReader(std::string path, UniqueFd fd, uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  uint64_t bytes() const override { return bytes_; }

  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t got = Retry(
          [&] { return pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
      if (got < 0) {
        return SystemError(errno, "read", path_);
      }
      if (got == 0) {
        return absl::DataLossError(
            absl::StrCat("read ", path_, ": it ends before byte ", offset + out.size()));
      }
      out = out.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const UniqueFd fd_;
  const uint64_t bytes_;
};

struct FolderCloser {
  void operator()(DIR* folder) const { closedir(folder); }
};

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

class PosixStorageImpl : public Storage {
 public:
  explicit PosixStorageImpl(Modes modes) : modes_(modes) {}

  absl::StatusOr<std::unique_ptr<StorageFile>> Create(const std::string& path) override {
    UniqueFd fd(Retry(
        [&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, modes_.file); }));
    if (!fd.valid()) {
      return SystemError(errno, "create", path);
    }
    return std::make_unique<PosixFile>(path, std::move(fd));
  }

  absl::StatusOr<std::unique_ptr<StorageReader>> Open(const std::string& path) const override {
    // O_NONBLOCK: a FIFO is refused, not waited for.
    UniqueFd fd(Retry([&] { return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
    struct stat info;
    if (!fd.valid() || fstat(fd.get(), &info) != 0) {
      return SystemError(errno, "open", path);
    }
    if (S_ISDIR(info.st_mode)) {
      return SystemError(EISDIR, "open", path);
    }
    if (!S_ISREG(info.st_mode)) {
      return absl::UnavailableError(absl::StrCat("open ", path, ": not a regular file"));
    }
    return std::make_unique<PosixReader>(path, std::move(fd), static_cast<uint64_t>(info.st_size));
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return SystemError(errno, "rename", absl::StrCat(from, " to ", to));
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      return SystemError(errno, "remove", path);
    }
    return absl::OkStatus();
  }

  absl::Status RemoveFolder(const std::string& path) override {
    if (rmdir(path.c_str()) != 0 && errno != ENOENT) {
      return SystemError(errno, "remove", path);
    }
    return absl::OkStatus();
  }

  absl::Status MakeFolder(const std::string& path) override {
    if (IsFolder(path)) {
      // Whoever made it may have ended before its name was on the disk. In a folder
      // that we cannot read we did not make it.
      const absl::Status synced = SyncFolder(FolderOf(path));
      return absl::IsPermissionDenied(synced) ? absl::OkStatus() : synced;
    }
    const std::string above = FolderOf(path);
    if (above != path) {
      RETURN_IF_ERROR(MakeFolder(above));
    }
    if (mkdir(path.c_str(), modes_.folder) != 0) {
      // Another may have made it meanwhile.
      if (const int error = errno; error != EEXIST || !IsFolder(path)) {
        return SystemError(error, "make folder", path);
      }
    }
    return SyncFolder(above);
  }

  absl::Status SyncFolder(const std::string& path) override {
    const UniqueFd fd(
        Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    // Some file systems cannot sync a folder and say EINVAL.
    if (!fd.valid() || (Retry([&] { return fsync(fd.get()); }) != 0 && errno != EINVAL)) {
      return SystemError(errno, "sync folder", path);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override {
    const std::unique_ptr<DIR, FolderCloser> folder(opendir(path.c_str()));
    if (folder == nullptr) {
      const int error = errno;
      const absl::Status status = SystemError(error, "list", path);
      return error == ENOTDIR ? absl::InvalidArgumentError(status.message()) : status;
    }
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      const dirent* const entry = readdir(folder.get());
      if (entry == nullptr) {
        break;
      }
      std::string name = entry->d_name;
      if (name == "." || name == "..") {
        continue;
      }
      const bool maybe_folder = entry->d_type != DT_REG;
      if (maybe_folder && IsFolder(InFolder(path, name))) {
        name.push_back('/');
      }
      names.push_back(std::move(name));
    }
    if (errno != 0) {
      return SystemError(errno, "list", path);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) const override {
    struct statvfs info;
    if (Retry([&] { return statvfs(path.c_str(), &info); }) != 0) {
      return SystemError(errno, "ask free space of", path);
    }
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

 private:
  const Modes modes_;
};

}  // namespace

Storage* PosixStorage() {
  static Storage* const storage = new PosixStorageImpl(kPrivate);
  return storage;
}

Storage* OutputStorage() {
  static Storage* const storage = new PosixStorageImpl(kOutput);
  return storage;
}

std::string WideFolderWarning(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || (info.st_mode & kOfOthers) == 0) {
    return "";
  }
  return absl::StrFormat(
      "%s is open to other users (mode %04o), who may read jobs and models in it: "
      "chmod 700 %s",
      path, info.st_mode & 07777, path);
}

}  // namespace monsoon
