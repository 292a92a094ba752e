#include "common/process/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

absl::StatusOr<FileLock> FileLock::Take(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the lock ", path));
  }
  char text[32] = {};
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
    }
    // Its holder writes right after it has the lock.
    const ssize_t read = pread(fd.get(), text, sizeof(text) - 1, 0);
    const std::string pid(absl::StripAsciiWhitespace(std::string(text, read > 0 ? read : 0)));
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is held by process ", pid.empty() ? "(unknown, just starting)" : pid));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write to ", path));
  }
  return FileLock(std::move(fd));
}

absl::StatusOr<FileLock> FileLock::Share(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the lock ", path));
  }
  while (flock(fd.get(), LOCK_SH) != 0) {
    if (errno != EINTR) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
    }
  }
  return FileLock(std::move(fd));
}

bool FileLock::IsShared(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace monsoon
